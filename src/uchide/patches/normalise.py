"""Mend what transport does to a unified diff, and refuse what cannot be mended."""

import re

from uchide.errors import PatchError

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")

# Git would leave these out without a word. `--- a/file` begins the next file, `-- ` the signature of a mail.
_LEFT_OVER = re.compile(r"\+(?!\+\+ )|-(?!-- |-\s*$)|[ \t]+\S")


def normalise(patch: str) -> str:
    """The same patch with exactly one final newline and with blank context lines that lost their space restored.

    Only `\\n` ends a line, so CRLF files and U+2028 survive. An empty or blank patch is "". Raises PatchError naming
    the line when a hunk does not have the number of lines it announces, or when there is no diff at all.
    """
    if not patch.strip():
        return ""
    lines = patch.split("\n")
    while lines and lines[-1].strip(" \r\t") == "" and not _ends_open(lines):
        lines.pop()
    out: list[str] = []
    position, hunks = 0, 0
    while position < len(lines):
        line = lines[position]
        out.append(line)
        position += 1
        if match := _HUNK.match(line):
            start, position = position, _hunk(lines, position, match, out)
            hunks += 1
            if position < len(lines) and _LEFT_OVER.match(lines[position]):
                raise _too_long(position, start)
    if not hunks and not any(line.startswith(("GIT binary patch", "diff --git ")) for line in lines):
        raise PatchError("this is not a unified diff: it has no hunk and no `diff --git` line")
    return "\n".join(out) + "\n" + ("\n" if _in_binary(out) else "")


def _hunk(lines: list[str], position: int, match: re.Match[str], out: list[str]) -> int:
    """Copy one hunk's body from `position` on; gives the position after it."""
    start = position
    old, new = (1 if count is None else int(count) for count in match.groups())
    while old > 0 or new > 0:
        line = lines[position] if position < len(lines) else None
        mark = " " if line == "" else (line or "?")[0]
        if line is None or mark not in " +-\\":
            raise PatchError(
                f"line {position + 1} of the patch: the hunk that begins at line {start} lacks {old} old and "
                f"{new} new lines"
            )
        old -= mark in " -"
        new -= mark in " +"
        if old < 0 or new < 0:
            raise PatchError(
                f"line {position + 1} of the patch: more lines than the hunk that begins at line {start} announces"
            )
        out.append(line or " ")
        position += 1
    while position < len(lines) and lines[position].startswith("\\ "):
        out.append(lines[position])
        position += 1
    return position


def _too_long(position: int, start: int) -> PatchError:
    return PatchError(f"line {position + 1} of the patch: more lines than the hunk at line {start} announces")


def _ends_open(lines: list[str]) -> bool:
    """Whether the last line is still owed to a hunk (a blank context line that was stripped)."""
    for start in range(len(lines) - 1, -1, -1):
        if match := _HUNK.match(lines[start]):
            try:
                _hunk(lines[:-1], start + 1, match, [])
            except PatchError:
                return True
            return False
    return False


def _in_binary(lines: list[str]) -> bool:
    """Whether the patch ends inside a `GIT binary patch`, which needs a blank line at its end."""
    for line in reversed(lines):
        if line.startswith(("@@ ", "diff --git ")):
            return False
        if line == "GIT binary patch":
            return True
    return False
