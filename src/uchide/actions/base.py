"""What every action format has in common: one logical contract with several spellings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    """How a model spells a call in its text; `native` describes the API call in words."""
    any_tool: bool = False
    """Whether it can call other tools than `bash`."""
    native: bool = False
    """Whether the tools are announced to, and called through, the API."""

    @property
    def example(self) -> str:
        """How a prompt shows it."""
        return self.write(Call("bash", {"command": "COMMAND"}))


def checked(command: object) -> str | FormatError:
    """A shell command fit to be run, or why it is not."""
    if not isinstance(command, str):
        return FormatError(f"`command` must be a string, not {type(command).__name__}")
    command = command.strip().replace("\r\n", "\n")
    if not command:
        return FormatError("the action is empty")
    if "\0" in command:
        return FormatError("the command contains a NUL character")
    if len(command.encode("utf-8", "replace")) > MAX_COMMAND:
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
