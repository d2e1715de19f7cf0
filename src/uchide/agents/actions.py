"""Action formats: from the answer part of a model's reply to exactly one shell command, or the reason why not."""

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_COMMAND = 100_000
"""Characters. The kernel takes no argument over 128 KiB."""


@dataclass(frozen=True)
class FormatError:
    """Why a reply was not executed, in words for the model."""

    reason: str


@dataclass(frozen=True)
class ActionFormat:
    """One surface syntax. `parse` gives the command, None where the text holds no action, or a FormatError."""

    name: str
    parse: Callable[[str], str | FormatError | None]
    example: str
    """How the prompt shows it."""


_BASH_OPEN = re.compile(r"<tool:\s*bash\s*>", re.IGNORECASE)
_BASH_CLOSE = re.compile(r"</tool\s*>", re.IGNORECASE)


def parse_tool_bash(text: str) -> str | FormatError | None:
    """`<tool: bash> COMMAND </tool>`.

    A command that itself holds one of the two tags is refused: cutting at the first `</tool>` could run half of it.
    """
    opened, closed = list(_BASH_OPEN.finditer(text)), list(_BASH_CLOSE.finditer(text))
    if not opened:
        return FormatError("there is a </tool> without <tool: bash>") if closed else None
    if len(opened) > 1:
        return FormatError(f"there are {len(opened)} <tool: bash> actions, only one is allowed")
    if not closed or closed[0].start() < opened[0].end():
        return FormatError("the action is not closed with </tool>")
    if len(closed) > 1:
        return FormatError("</tool> stands more than once; a command must not contain it")
    return _checked(text[opened[0].end() : closed[0].start()])


def _checked(command: str) -> str | FormatError:
    command = command.strip().replace("\r\n", "\n")
    if not command:
        return FormatError("the action is empty")
    if "\0" in command:
        return FormatError("the command contains a NUL character")
    if len(command.encode()) > MAX_COMMAND:
        return FormatError(f"the command is longer than {MAX_COMMAND:,} bytes; write the file in several steps")
    return command


FORMATS: dict[str, ActionFormat] = {
    "tool_bash": ActionFormat("tool_bash", parse_tool_bash, "<tool: bash> COMMAND </tool>"),
}
