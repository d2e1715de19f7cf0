"""Secrets never reach a file: values of secret-looking environment variables, and text that has a secret's shape, are
replaced before they are written or shown."""

import json
import os
import re
import sys
import traceback
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

MARK = "[redacted]"
SHORTEST = 6
"""Values shorter than this ("1", "true") would eat ordinary text."""

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|AUTH(?!OR)|_(PASS|PWD|PAT)$", re.IGNORECASE
)
_LONG_LINE = 20
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")

# A name that announces a secret, and a value that could be one: no plain number, no short word.
_NAMED = re.compile(
    r"""((?:api[_-]?key|token|secret|passw(?:or)?d|passphrase|authorization|credentials?|(?:set-)?cookie)
    ['"]?\s*[:=]\s*['"]?(?:(?:bearer|basic|token)\s+)?) (?!\d+\b)(?=[^\s'",;&}]*\d|[^\s'",;&}]{16})[^\s'",;&}]{6,}""",
    re.IGNORECASE | re.VERBOSE,
)
_SHAPE = re.compile(
    r"""\b(?:sk|rk|pk)-[A-Za-z0-9_-]{16,} | \bhf_[A-Za-z0-9]{16,} | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,} | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b | \bxox[abeprs]-[\w-]{10,} | \bAIza[\w-]{35}
    | \beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+ | (?<=[Bb]earer\ )[\w.~+/-]{8,}=* | (?<=[Bb]asic\ )[\w+/-]{8,}=*
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[^-]*-----|\Z)""",
    re.VERBOSE | re.DOTALL,
)

Redactor = Callable[[Any], Any]
"""Takes JSON data (text, lists, dictionaries, ...) and gives it back without secrets."""


def secret_values(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Values of the environment variables whose names look secret (`os.environ` unless given), and passwords inside
    addresses (`https://user:password@host`) of any variable.

    Of a value with several lines (a PEM key) each long line counts too. The path of a file is no secret.
    """
    source = os.environ if environ is None else environ
    values: set[str] = set()
    for name, value in source.items():
        values.update(text for text in _URL_PASSWORD.findall(value) if len(text) >= SHORTEST)
        if not _SECRET_NAME.search(name) or _is_path(value):
            continue
        lines = [line.strip() for line in value.splitlines()]
        values.update(text for text in (value, value.strip()) if len(text.strip()) >= SHORTEST)
        values.update(line for line in lines if len(line) >= _LONG_LINE)
    return frozenset(values)


def unmistakable(values: Iterable[str]) -> frozenset[str]:
    """Those values that no ordinary text holds by chance: long, on one line, no mere word or number.

    A password like `postgres` must not change a patch of a repository that is about postgres.
    """
    return frozenset(
        value
        for value in values
        if len(value) >= 12 and "\n" not in value and re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    )


def redactor(values: Iterable[str] | None = None) -> Redactor:
    """A function that replaces every one of `values` (by default `secret_values()`) inside JSON data, also where a
    value stands escaped, as Python, JSON or an address would write it."""
    given = secret_values() if values is None else set(values)
    known = sorted({form for value in given for form in _forms(value)}, key=len, reverse=True)
    if not known:
        return lambda data: data
    pattern = re.compile("|".join(re.escape(value) for value in known))

    def redact(data: Any) -> Any:  # noqa: ANN401 (walks JSON data)
        if isinstance(data, str):
            return pattern.sub(MARK, data)
        if isinstance(data, Mapping):
            return {redact(key): redact(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [redact(item) for item in data]
        return data

    return redact


def only(redact: Redactor, fields: frozenset[str]) -> Redactor:
    """`redact` for what stands under the keys `fields`, at any depth; keys and all other values are structure (kinds,
    roles, names, digests), which a file would be unreadable without."""

    def walk(data: Any) -> Any:  # noqa: ANN401 (walks JSON data)
        if isinstance(data, Mapping):
            return {key: redact(value) if key in fields else walk(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [walk(item) for item in data]
        return data

    return walk


def scrub(text: str) -> str:
    """Text of errors, logs and comments, where a secret may also be none of this process's environment (a header of a
    server's answer): values as above, and whatever has the name or the shape of a secret."""
    text = str(redactor()(text))
    text = _SHAPE.sub(MARK, _NAMED.sub(rf"\1{MARK}", text))
    return _URL_PASSWORD.sub(lambda match: match[0].replace(match[1] + "@", f"{MARK}@"), text)


def has_shape_of_secret(text: str) -> bool:
    """Whether a value gives itself away (`sk-...`, `Bearer ...`, a password inside an address)."""
    return bool(_SHAPE.search(text) or _URL_PASSWORD.search(text))


def scrubbed_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A `sys.excepthook` that prints what Python would, without secrets."""
    sys.stderr.write(scrub("".join(traceback.format_exception(kind, error, trace))))


def _forms(value: str) -> set[str]:
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], urllib.parse.quote(value, safe="")}


def _is_path(value: str) -> bool:
    return value.startswith("/") and len(value) < 4096 and "\0" not in value and Path(value).exists()
