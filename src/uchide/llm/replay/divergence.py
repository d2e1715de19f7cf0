"""Whether a request is the recorded one, and if not, where the two part."""

from collections.abc import Sequence
from typing import Any, Literal

from uchide.llm.fingerprint import Print, normal
from uchide.llm.transcript import RecordedMessage

Match = Literal["normal", "exact", "order"]
_AROUND = 60


def first_difference(
    recorded: Sequence[RecordedMessage], asked: Sequence[tuple[dict[str, Any], Print]], match: Match
) -> str:
    """What differs first, with a short excerpt of both; empty when nothing does that `match` looks at."""
    if match == "order":
        return ""
    for number, (old, (data, new)) in enumerate(zip(recorded, asked, strict=False), start=1):
        if getattr(old, match) != getattr(new, match):
            return f"message {number} ({data['role']}) differs: {_excerpts(old, data, match)}"
    if len(recorded) != len(asked):
        return f"the recorded request has {len(recorded)} messages, this one {len(asked)}"
    return ""


def _excerpts(old: RecordedMessage, data: dict[str, Any], match: Match) -> str:
    if old.role != data["role"]:
        return f"it was a message of {old.role}"
    view = normal if match == "normal" else str
    before, now = view(old.content), view(data["content"])
    if before == now:
        return "its tool calls are others"
    start = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    line = before.count("\n", 0, start) + 1
    return f"line {line}, recorded {_cut(before, start)}, now {_cut(now, start)}"


def _cut(text: str, start: int) -> str:
    first = max(0, start - _AROUND // 2)
    piece = text[first : start + _AROUND]
    return repr(("..." if first else "") + piece + ("..." if start + _AROUND < len(text) else ""))
