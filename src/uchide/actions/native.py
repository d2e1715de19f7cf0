"""Tool calls of the API: the server reads the model's own spelling and hands over a name and JSON text."""

from collections.abc import Sequence

from uchide.actions.base import ActionFormat, Call, FormatError, kind
from uchide.actions.json_calls import arguments, decode, encode
from uchide.protocols import ToolCall


def read(text: str, tool_calls: Sequence[ToolCall] = ()) -> Call | FormatError | None:
    """`text` is no action, whatever it holds."""
    if not tool_calls:
        return None
    if len(tool_calls) > 1:
        return FormatError(f"there are {len(tool_calls)} tool calls, only one is allowed")
    only = tool_calls[0]
    if not only.name.strip():
        return FormatError("the tool call has no name")
    given = _arguments(only.arguments)
    return given if isinstance(given, FormatError) else Call(only.name.strip(), given)


def _arguments(raw: object) -> dict[str, object] | FormatError:
    # Some servers hand over what they have decoded themselves.
    if not isinstance(raw, str):
        return FormatError(f"the arguments must be JSON text, not {kind(raw)}")
    if not raw.strip():
        return {}
    found = decode(raw)
    if isinstance(found, FormatError):
        return found
    value, end = found
    if rest := raw[end:].strip():
        return FormatError(f"nothing may follow the JSON of the arguments, and {rest[:20]!r} does")
    return arguments(value)


def write(given: Call) -> str:
    """In words, for a prompt; `tool_call` makes the call itself."""
    return f"(a call of the tool `{given.name}` with the arguments {encode(given.arguments)})"


def tool_call(given: Call, identity: str = "call_1") -> ToolCall:
    """The call as a server would hand it over."""
    return ToolCall(identity, given.name, encode(given.arguments))


FORMAT = ActionFormat("native", read, write, any_tool=True, native=True)
