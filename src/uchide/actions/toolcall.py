"""`[TOOL_CALLS]bash[ARGS]{"command": "COMMAND"}`, as Mistral and Devstral models call.

Older ones write `[TOOL_CALLS] [{"name": "bash", "arguments": {"command": "COMMAND"}}]`; both are read.
"""

import re
from collections.abc import Sequence
from typing import Any

from uchide.actions.base import CALLED_API, ActionFormat, Call, FormatError, written
from uchide.actions.json_calls import arguments, call, decode, encode, is_call
from uchide.protocols import ToolCall

_MARK = "[TOOL_CALLS]"
_NAMED = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]|(?=\{))", re.ASCII)
_END = re.compile(r"\s*(?:</s>\s*)?\Z")


def read(text: str, tool_calls: Sequence[ToolCall] = ()) -> Call | FormatError | None:
    """Servers strip what they hold for special tokens: the markers may be missing where one call is the whole text."""
    if tool_calls:
        return CALLED_API
    start = text.find(_MARK)
    if start < 0:
        return _bare(text)
    start += len(_MARK)
    if _END.match(text, start):
        return FormatError(f"the action is empty: nothing follows {_MARK}")
    found = _at(text, start)
    if isinstance(found, FormatError):
        return found
    value, end = found
    if _MARK in text[end:]:
        return FormatError(f"there are several {_MARK} actions, only one is allowed")
    if not _END.match(text, end):
        return FormatError(f"nothing may follow the JSON of the call, and {text[end:].strip()[:20]!r} does")
    return value if isinstance(value, Call) else _single(value)


def _at(text: str, start: int) -> tuple[Any, int] | FormatError:
    """What stands at `start`, a Call or other JSON, and where it ends."""
    named = _NAMED.match(text, start)
    if named is None:
        if text[start:].lstrip()[:1] in ("[", "{"):
            return decode(text, start)
        rest = text[start:].strip()[:20]
        return FormatError(f"after {_MARK} a name with [ARGS] and a JSON object is expected, not {rest!r}")
    found = decode(text, named.end())
    if isinstance(found, FormatError):
        return found
    given = arguments(found[0])
    return given if isinstance(given, FormatError) else (Call(named[1], given), found[1])


def _single(value: object) -> Call | FormatError:
    if not isinstance(value, list):
        return call(value)
    if not value:
        return FormatError("the action is empty: the array holds no call")
    if len(value) > 1:
        return FormatError(f"there are {len(value)} actions in the array, only one is allowed")
    return call(value[0])


def _bare(text: str) -> Call | FormatError | None:
    if not _NAMED.match(text) and not text.lstrip().startswith("["):
        return None
    found = _at(text, 0)
    if isinstance(found, FormatError) or not _END.match(text, found[1]):
        return None
    value = found[0]
    if isinstance(value, Call):
        return value
    return _single(value) if isinstance(value, list) and value and all(map(is_call, value)) else None


def write(given: Call) -> str:
    return written(given, f"{_MARK}{given.name}[ARGS]{encode(given.arguments)}", read)


FORMAT = ActionFormat("toolcall", read, write, any_tool=True)
