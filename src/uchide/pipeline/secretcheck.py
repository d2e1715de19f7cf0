"""No secret in an experiment file: it is committed, copied into run folders and shown on the report page."""

import re
from collections.abc import Iterable, Iterator

from uchide.errors import ConfigError
from uchide.pipeline.yamlfile import Document, KeyPath
from uchide.redact import has_shape_of_secret, secret_values

_KEY = re.compile(
    r"(.*[_-])?(api_?key|key|token|secret|password|passwd|passphrase|credentials?|auth|authorization|cookie)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{?\w+\}?")
_SHORTEST = 8


def refuse_secrets(document: Document) -> None:
    """Raises ConfigError naming file, line and key, never the value, for what is or looks like a secret: text under a
    key such as `api_key`, a value of a well-known shape, and the value of a secret environment variable."""
    known = _known()
    for at, value in _texts(document.data, ()):
        named = isinstance(at[-1], str) and _KEY.fullmatch(at[-1]) is not None and not _REFERENCE.fullmatch(value)
        if named or _is_secret(value, known):
            raise ConfigError(
                f"{document.where(at)}: {'.'.join(map(str, at))} holds a secret in plain text",
                hint="an experiment file is committed, and copied into artifacts and the report: put the secret into "
                "an environment variable and name that here (api_key_env: OPENAI_API_KEY)",
            )


def holds_secret(text: str) -> bool:
    """Whether something in it has the shape of a secret, or is the value of a secret environment variable."""
    return _is_secret(text, _known())


def _known() -> list[str]:
    return [value for value in secret_values() if len(value) >= _SHORTEST]


def _is_secret(text: str, known: Iterable[str]) -> bool:
    return has_shape_of_secret(text) or any(secret in text for secret in known)


def _texts(data: object, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Every non-empty text with its key path."""
    if isinstance(data, str) and data and at:
        yield at, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(value, (*at, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _texts(value, (*at, number))
