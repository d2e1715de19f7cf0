"""What counts as a secret, and what is left of a text that holds one."""

import json

import pytest

from uchide.errors import ModelError
from uchide.redact import MARK, redactor, scrub, secret_values, unmistakable


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "abcdef", True),
        ("HF_TOKEN", "abcdef", True),
        ("AWS_SECRET_ACCESS_KEY", "abcdef", True),
        ("SMTP_PASS", "abcdef", True),
        ("GITHUB_PAT", "abcdef", True),
        ("openai_api_key", "abcdef", True),
        ("OPENAI_API_KEY", "short", False),
        ("AUTHOR", "somebody", False),
        ("COMPASS", "northward", False),
        ("HOME", "/home/somebody", False),
        ("SSH_AUTH_SOCK", "/etc/passwd", False),
        ("XAUTHORITY_KEY", "/no/such/file", True),
    ],
)
def test_names_of_variables(name, value, secret):
    assert (value in secret_values({name: value})) == secret


def test_passwords_in_addresses_of_any_variable():
    found = secret_values({"HTTPS_PROXY": "http://me:pass-word@proxy:3128", "URL": "https://host/a:b@c"})
    assert found == {"pass-word"}


def test_escaped_forms_are_found_too():
    secret = 'a\\b"c\u00e9 d/e'
    texts = [
        secret,
        repr(secret),
        json.dumps(secret),
        json.dumps({"k": secret}),
        "https://h/?q=a%5Cb%22c%C3%A9%20d%2Fe",
    ]
    redact = redactor([secret])
    for text in texts:
        assert MARK in redact(text)
        assert "c" not in redact(text).replace(MARK, "")


def test_only_unmistakable_values_may_change_a_patch():
    values = {"postgres", "release-bugs-x", "123456789012", "k3y-0123456789", "two\nlines 0123456789"}
    assert unmistakable(values) == {"k3y-0123456789"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdef12345678", "Authorization: Bearer [redacted]"),
        ("{'x-api-key': 'zz99zz99', 'a': 1}", "{'x-api-key': '[redacted]', 'a': 1}"),
        ("GET https://h/x?token=abc123def&n=1", "GET https://h/x?token=[redacted]&n=1"),
        ("https://u:pa55word@h/x", "https://u:[redacted]@h/x"),
        ("Set-Cookie: session=abc123; path=/", "Set-Cookie: [redacted]; path=/"),
        ("bad key sk-abcdefghijklmnop1234.", "bad key [redacted]."),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
        ("model.api_key: Extra inputs are not permitted", None),
        ("unknown key 'max_tokens'; limits.tokens: 4096000", None),
        ("write api_key_env: OPENAI_API_KEY", None),
        ("task-abcdefghijklmnopqrstuvwxyz failed", None),
        ("tests/test_token.py::test_token: assert 1 == 2", None),
    ],
)
def test_text_of_errors(text, left):
    assert scrub(text) == (text if left is None else left)
    assert scrub(scrub(text)) == scrub(text)
    assert ModelError(text, hint=text).hint == scrub(text)
