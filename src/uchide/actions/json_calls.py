"""Calls as JSON: what `tool_call`, `toolcall` and `native` have in common.

A value is decoded from where it begins, so that whatever its strings hold (tags, fences, markers) cannot end it.
"""

import json
from collections.abc import Mapping
from typing import Any

from uchide.actions.base import Call, FormatError, kind

_KNOWN = {"id", "type", "name", "arguments"}


class _Refused(ValueError):
    """JSON that Python reads and we do not."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Refused(f"{next(name for name in names if names.count(name) > 1)[:40]!r} stands twice in one object")
    return found


def _constant(name: str) -> None:
    raise _Refused(f"{name} is not JSON")


# Not strict: a raw line break inside a string is no JSON, but can mean only one thing, and many models write it.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_pairs, parse_constant=_constant)


def decode(text: str, start: int = 0) -> tuple[Any, int] | FormatError:
    """The JSON value that begins at `start`, after white space, and where it ends."""
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
        if "\\u" in text[start:end]:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        return FormatError(_explain(text, error))
    except _Refused as error:
        return FormatError(f"the JSON is malformed: {error}")
    except UnicodeEncodeError:
        return FormatError(r"the JSON is malformed: a \u escape is half a character (a lone surrogate)")
    except (ValueError, RecursionError):
        return FormatError("the JSON is malformed: a number is too long, or the values are nested too deep")
    return value, end


def _explain(text: str, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :].strip()
    if not rest:
        return f"the JSON is cut off: {error.msg} at its end"
    if error.msg.startswith("Unterminated string"):
        return f"the JSON is cut off: the string that begins with {rest[:20]!r} is not closed"
    return f"the JSON is malformed: {error.msg} at {rest[:20]!r}"


def arguments(value: object) -> dict[str, Any] | FormatError:
    """The arguments of a call, or what they are instead."""
    if isinstance(value, dict):
        return value
    return FormatError(f"the arguments must be a JSON object, not {kind(value)}")


def call(value: object) -> Call | FormatError:
    """`{"name": ..., "arguments": {...}}` as a call; `id` and `type` may stand beside."""
    if not isinstance(value, dict):
        return FormatError(f"a call must be a JSON object, not {kind(value)}")
    if extra := sorted(set(value) - _KNOWN):
        return FormatError(f"a call has `name` and `arguments`, not {extra[0][:40]!r}")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        return FormatError(f"`name` must be the name of a tool, not {kind(name)}" if name else "`name` is missing")
    if "arguments" not in value:
        return FormatError("`arguments` is missing")
    given = arguments(value["arguments"])
    return given if isinstance(given, FormatError) else Call(name.strip(), given)


def is_call(value: object) -> bool:
    """Whether a value without any marker around it can be nothing but a call."""
    return isinstance(value, dict) and {"name", "arguments"} <= set(value) <= _KNOWN


def encode(given: Mapping[str, Any]) -> str:
    """JSON text as models write it."""
    return json.dumps(dict(given), ensure_ascii=False)
