"""`<tool_call>{"name": "bash", "arguments": {"command": "COMMAND"}}</tool_call>`, as Qwen and Hermes models call."""

import re
from collections.abc import Sequence

from uchide.actions.base import CALLED_API, ActionFormat, Call, FormatError, written
from uchide.actions.json_calls import call, decode, encode, is_call
from uchide.protocols import ToolCall

_OPEN = re.compile(r"<tool_call>\s*", re.IGNORECASE)
_CLOSE = re.compile(r"</tool_call>", re.IGNORECASE)
_THEN_CLOSE = re.compile(r"\s*</tool_call>", re.IGNORECASE)


def read(text: str, tool_calls: Sequence[ToolCall] = ()) -> Call | FormatError | None:
    """Servers strip what they hold for special tokens: a missing `</tool_call>` at the very end is no error, nor are
    both tags missing where the JSON of one call is the whole text."""
    if tool_calls:
        return CALLED_API
    opened = _OPEN.search(text)
    if _CLOSE.search(text, 0, opened.start() if opened else len(text)):
        return FormatError("there is a </tool_call> without <tool_call>")
    if opened is None:
        return _bare(text)
    if _CLOSE.match(text, opened.end()):
        return FormatError("the action is empty: nothing stands between <tool_call> and </tool_call>")
    found = decode(text, opened.end())
    if isinstance(found, FormatError):
        return found
    value, end = found
    closed = _THEN_CLOSE.match(text, end)
    rest = text[closed.end() if closed else end :]
    if not closed and rest.strip():
        return FormatError(f"after the JSON of the call </tool_call> is expected, not {rest.strip()[:20]!r}")
    if _OPEN.search(rest):
        return FormatError("there are several <tool_call> actions, only one is allowed")
    if _CLOSE.search(rest):
        return FormatError("there is a </tool_call> without <tool_call>")
    return call(value)


def _bare(text: str) -> Call | FormatError | None:
    found = decode(text) if text.lstrip().startswith("{") else None
    if found is None or isinstance(found, FormatError) or text[found[1] :].strip() or not is_call(found[0]):
        return None
    return call(found[0])


def write(given: Call) -> str:
    text = encode({"name": given.name, "arguments": dict(given.arguments)})
    return written(given, f"<tool_call>\n{text}\n</tool_call>", read)


FORMAT = ActionFormat("tool_call", read, write, any_tool=True)
