"""`<tool: bash> COMMAND </tool>`, the default."""

import re
from collections.abc import Sequence

from uchide.actions.base import CALLED_API, ActionFormat, Call, FormatError, bash, checked, written
from uchide.protocols import ToolCall

_OPEN = re.compile(r"<tool:\s*bash\s*>", re.IGNORECASE)
_REST = re.compile(r"[\s.`*]+|</s>")
"""What may follow an action on its line: decoration and the marks that a server left."""
_CLOSE = re.compile(r"</tool\s*>", re.IGNORECASE)


def read(text: str, tool_calls: Sequence[ToolCall] = ()) -> Call | FormatError | None:
    """A command that itself holds one of the two tags is refused: cut at the first `</tool>`, half of it might run."""
    if tool_calls:
        return CALLED_API
    opened, closed = list(_OPEN.finditer(text)), list(_CLOSE.finditer(text))
    if not opened:
        return FormatError("there is a </tool> without <tool: bash>") if closed else None
    if len(opened) > 1:
        return FormatError(f"there are {len(opened)} <tool: bash> actions, only one is allowed")
    if not closed or closed[0].start() < opened[0].end():
        return FormatError("the action is not closed with </tool>")
    if len(closed) > 1:
        return FormatError("</tool> stands more than once; a command must not contain it")
    if rest := _REST.sub("", text[closed[0].end() :].partition("\n")[0]):
        return FormatError(f"{rest[:20]!r} follows </tool> on its line; a command must not contain that tag")
    command = checked(text[opened[0].end() : closed[0].start()])
    return command if isinstance(command, FormatError) else Call("bash", {"command": command})


def write(call: Call) -> str:
    """Cannot spell a command that holds one of the two tags."""
    call = bash(call)
    return written(call, f"<tool: bash> {call.arguments['command']} </tool>", read)


FORMAT = ActionFormat("tool_bash", read, write)
