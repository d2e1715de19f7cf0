"""What every action format has in common: one logical contract with several spellings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uchide.errors import ActionError
from uchide.protocols import ToolCall

MAX_COMMAND = 100_000
"""Bytes. The kernel takes no argument over 128 KiB."""


@dataclass(frozen=True)
class Call:
    """One action: a tool by name and its arguments. `bash` takes `command`."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class FormatError:
    """Why a reply was not executed, in words for the model."""

    reason: str


@dataclass(frozen=True)
class ActionFormat:
    """One spelling."""

    name: str
    read: Callable[[str, Sequence[ToolCall]], Call | FormatError | None]
    """(text, API tool calls) of a reply -> its only action, None where it holds none, or what is wrong with it."""
    write: Callable[[Call], str]
    """How a model spells a call in its text; `native` describes the API call in words. Raises ActionError for a call
    that cannot be spelt so that `read` gives it back."""
    any_tool: bool = False
    """Whether it can call other tools than `bash`."""
    native: bool = False
    """Whether the tools are announced to, and called through, the API."""

    @property
    def example(self) -> str:
        """How a prompt shows it."""
        return self.write(Call("bash", {"command": "COMMAND"}))


CALLED_API = FormatError("call no API tools; write the action into the text")
"""A text format met a tool call of the API."""


def kind(value: object) -> str:
    """The JSON name of a value's type, for messages."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def written(call: Call, text: str, read: Callable[[str, Sequence[ToolCall]], Call | FormatError | None]) -> str:
    """`text`, if `read` gives `call` back. Raises ActionError."""
    back = read(text, ())
    if back == call:
        return text
    reason = back.reason if isinstance(back, FormatError) else "it would be read as another call"
    raise ActionError(f"this action format cannot spell the call of {call.name!r}: {reason}")


def bash(call: Call) -> Call:
    """`call` with its command as it will be run. Raises ActionError for anything but a sound call of `bash`."""
    command = shell_command(call)
    if isinstance(command, FormatError):
        raise ActionError(f"this action format can only run shell commands: {command.reason}")
    return Call("bash", {"command": command})


def checked(command: object) -> str | FormatError:
    """A shell command fit to be run, or why it is not."""
    if not isinstance(command, str):
        return FormatError(f"`command` must be a string, not {kind(command)}")
    command = command.strip().replace("\r\n", "\n")
    if not command:
        return FormatError("the action is empty")
    if "\0" in command:
        return FormatError("the command contains a NUL character")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        return FormatError("the command contains half a character (a lone surrogate)")
    if size > MAX_COMMAND:
        return FormatError(f"the command is longer than {MAX_COMMAND:,} bytes; write the file in several steps")
    return command


def shell_command(call: Call) -> str | FormatError:
    """The command of a `bash` call, for an agent that knows no other tool."""
    if call.name != "bash":
        return FormatError(f"there is no tool {call.name[:40]!r}, only bash")
    if extra := sorted(set(call.arguments) - {"command"}):
        return FormatError(f"bash takes `command` and nothing else, not {extra[0][:40]!r}")
    if "command" not in call.arguments:
        return FormatError("the argument `command` is missing")
    return checked(call.arguments["command"])
