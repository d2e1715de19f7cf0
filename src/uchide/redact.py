"""Secrets never reach a file: the values of secret-looking environment variables are replaced before writing."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MARK = "[redacted]"
SHORTEST = 6
"""Values shorter than this ("1", "true") would eat ordinary text."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!OR)", re.IGNORECASE)
_LONG_LINE = 20

Redactor = Callable[[Any], Any]
"""Takes JSON data (text, lists, dictionaries, ...) and gives it back without secrets."""


def secret_values(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """Values of the environment variables whose names look secret (`os.environ` unless given).

    Of a value with several lines (a PEM key) each long line counts too.
    """
    source = os.environ if environ is None else environ
    values: set[str] = set()
    for name, value in source.items():
        if not _SECRET_NAME.search(name):
            continue
        lines = [line.strip() for line in value.splitlines()]
        values.update(text for text in (value, value.strip()) if len(text.strip()) >= SHORTEST)
        values.update(line for line in lines if len(line) >= _LONG_LINE)
    return frozenset(values)


def redactor(values: Iterable[str] | None = None) -> Redactor:
    """A function that replaces every one of `values` (by default `secret_values()`) inside JSON data."""
    known = sorted(secret_values() if values is None else set(values), key=len, reverse=True)
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
