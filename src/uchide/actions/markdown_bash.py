"""One fenced block of Markdown whose language is `bash`.

Fences are read by the rules of CommonMark: a block ends at the first line that holds nothing but a fence of the same
character, at least as long as the opening one. So a command with ``` lines of its own needs a longer fence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from uchide.actions.base import CALLED_API, ActionFormat, Call, FormatError, bash, checked, written
from uchide.protocols import ToolCall

_FENCE = re.compile(r"( {0,3})(`{3,}+|~{3,}+)([^\r]*)\r?")
_LONGER = "a command with ``` lines of its own needs a longer fence around it"
_BACKTICKS = re.compile(r"`+")


@dataclass
class _Block:
    indent: int
    fence: str
    language: str
    lines: list[str]
    closed: bool = False

    def ends_at(self, line: str) -> bool:
        mark = _FENCE.fullmatch(line)
        return mark is not None and mark[2].startswith(self.fence) and not mark[3].strip(" \t")

    def add(self, line: str) -> None:
        spaces = len(line) - len(line.lstrip(" "))
        self.lines.append(line[min(spaces, self.indent) :])


def read(text: str, tool_calls: Sequence[ToolCall] = ()) -> Call | FormatError | None:
    """Blocks in other languages are no actions. None may follow the action: its first part would be a command cut off
    at a fence of its own."""
    if tool_calls:
        return CALLED_API
    blocks = _blocks(text)
    actions = [block for block in blocks if block.language == "bash"]
    if not actions:
        return None
    if len(actions) > 1:
        return FormatError(f"there are {len(actions)} ```bash blocks, only one is allowed")
    if not blocks[-1].closed:
        return FormatError(f"a fence is not closed; {_LONGER}")
    if blocks[-1] is not actions[0]:
        return FormatError(f"another fence follows the ```bash block; {_LONGER}")
    command = checked("\n".join(actions[0].lines))
    return command if isinstance(command, FormatError) else Call("bash", {"command": command})


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    for line in text.split("\n"):
        if blocks and not blocks[-1].closed:
            if blocks[-1].ends_at(line):
                blocks[-1].closed = True
            else:
                blocks[-1].add(line)
        elif (mark := _FENCE.fullmatch(line)) and not ("`" in mark[2] and "`" in mark[3]):
            blocks.append(_Block(len(mark[1]), mark[2], (mark[3].split() or [""])[0].lower(), []))
    return blocks


def write(call: Call) -> str:
    """The fence is longer than any run of backticks in the command."""
    call = bash(call)
    command = call.arguments["command"]
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(command)), default=0))
    return written(call, f"{fence}bash\n{command}\n{fence}", read)


FORMAT = ActionFormat("markdown_bash", read, write)
