"""When two requests are the same: to the letter, or but for what differs from one execution to the next."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from uchide.protocols import Message
from uchide.redact import Redactor, only

_DIGITS = 32

FREE_TEXT = frozenset({"content", "arguments", "text"})
"""Fields of messages and replies that may hold a secret; all others are structure."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|[mµun]?s|h)"
_WORD = r"(?:(?:milli|micro|nano)?seconds?|secs?|minutes?|mins?|ms)"
_NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
_SAYS = r" {0,9}[:=] {0,9}"
_VOLATILE: tuple[tuple[str, str], ...] = (
    (r"(?<![\d,])\d[\d,]* bytes\b", "<size>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z\b|[+-]\d\d:?\d\d))?", "<time>"),
    (rf"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?{_MONTH} +\d{{1,2}} +\d\d:\d\d(?::\d\d)?(?: \d{{4}})?", "<time>"),
    (r"\b\d{1,3}:\d\d:\d\d(?:[.,]\d+)?\b", "<duration>"),
    (r"\b\d+m ?\d+(?:\.\d+)?s\b", "<duration>"),
    (rf"(?<![\w.])\d+\.\d+(?:e-?\d+)? ?{_UNIT}\b", "<duration>"),
    (rf"(?<=\bin )\d+ ?{_UNIT}\b", "<duration>"),
    (rf"(?<![\w.,])\d[\d,]* ?{_WORD}\b", "<duration>"),
    (rf"(?<=seconds){_SAYS}{_NUMBER}\b|(?<=\btime){_SAYS}{_NUMBER} ?{_UNIT}\b", ": <duration>"),
    (rf"(?i:\belapsed(?: time)?){_SAYS}{_NUMBER}\b(?: ?{_UNIT}\b)?", "elapsed: <duration>"),
    (r"(?<=^real )\d+\.\d+$|(?<=^user )\d+\.\d+$|(?<=^sys )\d+\.\d+$", "<duration>"),
    (r"(?<=\bpid[ =:])\s*\d+\b|(?<=\bpid: )\d+\b|(?<=\bprocess )\d+\b|(?<=^==)\d+(?===)", "<pid>"),
    (r"\b0x[0-9a-fA-F]{6,}\b", "0x<address>"),
    (r"(?<=/)pytest-of-[^/\s]+/pytest-\d+", "<tmp>"),
    (r"(?<=/tmp/)[^/\s'\"<>:;,()\[\]]+", "<tmp>"),
    (r"(?<=/)tmp[.A-Za-z0-9_-]{6,}", "<tmp>"),
    (r"={4,}", "==="),
    (r"-{4,}", "---"),
    (r"_{4,}", "___"),
)
_CUT = re.compile(r"\n\[\.\.\. [^\n]{1,90} left out \.\.\.\]\n")
_PATTERN = re.compile("|".join(f"(?P<v{n}>{pattern})" for n, (pattern, _) in enumerate(_VOLATILE)), re.MULTILINE)


def normal(text: str) -> str:
    """`text` without what no two executions share: times of day, durations, process ids, addresses of objects, names of
    temporary files; and without what depends on the length of these: sizes of files, rulers (which pytest fills up
    around a duration), and where exactly a long output was cut."""
    pieces = _CUT.split(text)
    for number, piece in enumerate(pieces):
        start = piece.find("\n") if number else 0  # the broken lines on both sides of a cut go too
        end = piece.rfind("\n") if number < len(pieces) - 1 else len(piece)
        pieces[number] = piece[max(start, 0) : max(end, 0)]
    return _PATTERN.sub(_neutral, "\n<left out>".join(pieces))


def _neutral(match: re.Match[str]) -> str:
    assert match.lastgroup
    return _VOLATILE[int(match.lastgroup[1:])][1]


@dataclass(frozen=True)
class Print:
    """Digests of one message: of all its letters, and of its normal form."""

    exact: str
    normal: str


def message_data(message: Message) -> dict[str, Any]:
    """A message as JSON data; keys that say nothing are left out."""
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_call_id:
        data["tool_call_id"] = message.tool_call_id
    return data


def print_of(data: dict[str, Any]) -> Print:
    """Digests of a message's data. Ids of tool calls are a server's whim: only the exact digest counts them."""
    plain = {
        "role": data["role"],
        "content": normal(data["content"]),
        "tool_calls": [[call["name"], normal(call["arguments"])] for call in data.get("tool_calls", [])],
    }
    return Print(_digest(data), _digest(plain))


class Prints:
    """Digests of conversations, of which only the new end is looked at: earlier messages are known by identity."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = only(redact, FREE_TEXT)
        self._messages: tuple[Message, ...] = ()
        self._known: tuple[tuple[dict[str, Any], Print], ...] = ()

    def of(self, messages: Sequence[Message]) -> tuple[tuple[dict[str, Any], Print], ...]:
        """Data, without secrets, and digests of every message."""
        keeps = common(self._messages, messages)
        added = [self._one(message) for message in messages[keeps:]]
        self._messages, self._known = tuple(messages), (*self._known[:keeps], *added)
        return self._known

    def _one(self, message: Message) -> tuple[dict[str, Any], Print]:
        data: dict[str, Any] = self._redact(message_data(message))
        return data, print_of(data)


def common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages two conversations share at their beginning."""
    for number, (one, other) in enumerate(zip(before, after, strict=False)):
        if one is not other and one != other:
            return number
    return min(len(before), len(after))


def request_key(place: str, role: str, prints: Iterable[Print]) -> str:
    """What two requests that mean the same have in common: place, role and the normal form of every message."""
    return _digest([place, role, [each.normal for each in prints]])


def file_stem(session: str) -> str:
    """A session's name as that of a file: letters, digits, dot, dash, underscore."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", session)[:160].lstrip(".")
    return safe if safe == session and safe else f"{safe or 'session'}-{_digest(session)[:8]}"


def _digest(value: object) -> str:
    data = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()[:_DIGITS]
