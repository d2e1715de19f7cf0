"""Half a command must not run: what a tag, a fence or a token limit cut is refused before anything of it is executed.

bash itself would run every line before the one that is not closed, and take a cut here-document as a whole one.
"""

import re

from uchide.actions import FormatError
from uchide.agents.session import Session
from uchide.protocols import Command

_CHECK = ("/bin/sh", "-c", 'LC_ALL=C exec /bin/bash -n -c "$1"', "sh")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`""", re.DOTALL)
_OPEN = re.compile(r"""["'`]""")
_HEREDOC = re.compile(r"""<<-?[ \t]*\\?["']?([^\s"'\\;&|<>()]+)""")
_BODY = re.compile(
    r"""(<<-?[ \t]*\\?["']?)([^\s"'\\;&|<>()]+)([^\n]*)\n(?:.*?\n)??[ \t]*\2[ \t]*(?=\n|\Z)""", re.DOTALL
)
_QUOTE = re.compile(r"unexpected EOF while looking for matching `(.+)'")
_DOCUMENT = re.compile(r"here-document .*delimited by end-of-file \(wanted `(.+)'\)")


async def refused_half(command: str, session: Session) -> FormatError | None:
    """Why `command` is not run, None where it is whole. Only a command that looks like half of one costs a process:
    bash reads it without running it."""
    if not looks_cut(command):
        return None
    check = Command((*_CHECK, command), timeout_s=min(30.0, session.seconds_left()), output_limit=20_000)
    said = (await session.sandbox.run(check)).output.decode("utf-8", "replace")
    if found := _QUOTE.search(said):
        return FormatError(f"the command is cut off or malformed: a {found[1][:20]} that is opened is never closed")
    if found := _DOCUMENT.search(said):
        return FormatError(f"the command is cut off: its here-document is not ended by a line {found[1][:40]!r}")
    return None


def looks_cut(command: str) -> bool:
    """Whether a quote or here-document may be open at the end; true for some sound commands too."""
    lines = {line.strip() for line in command.split("\n")}
    if any(word not in lines for word in _HEREDOC.findall(command)):
        return True
    return _OPEN.search(_QUOTED.sub("", _BODY.sub(r"\1\2\3", command))) is not None
