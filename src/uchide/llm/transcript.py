"""The file of a recorded session: its lines, and how they are read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from uchide.errors import StoreError
from uchide.llm.fingerprint import Print, request_key
from uchide.llm.resuming import Asked
from uchide.protocols import ChatReply, ToolCall
from uchide.records import Record, Usage

SUFFIX = ".jsonl"


class RecordedCall(Record):
    """A tool call as the model gave it."""

    id: str
    name: str
    arguments: str


class RecordedMessage(Record):
    """A message with its digests: `exact` of every letter, `normal` without what differs between executions."""

    role: str
    content: str
    tool_calls: tuple[RecordedCall, ...] = ()
    tool_call_id: str = ""
    exact: str
    normal: str

    @property
    def print(self) -> Print:
        return Print(self.exact, self.normal)


class RecordedReply(Record):
    """A reply, whole."""

    text: str
    tool_calls: tuple[RecordedCall, ...] = ()
    finish_reason: str
    usage: Usage
    model: str

    @classmethod
    def of(cls, reply: ChatReply) -> "RecordedReply":
        calls = tuple(RecordedCall(id=c.id, name=c.name, arguments=c.arguments) for c in reply.tool_calls)
        return cls(
            text=reply.text,
            tool_calls=calls,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            model=reply.model,
        )

    def reply(self) -> ChatReply:
        calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in self.tool_calls)
        return ChatReply(self.text, self.usage, self.finish_reason, self.model, calls)


class Exchange(Record):
    """One line: a request and its reply. The request is the first `keeps` messages of the request of line `after`, then
    `messages`: so a file grows with what is said, not with how often it is sent."""

    schema_version: Literal[1] = 1
    n: int
    session: str
    place: str
    role: str
    seed: int
    after: int | None = None
    keeps: int = 0
    messages: tuple[RecordedMessage, ...]
    reply: RecordedReply
    name: str
    """`ChatModel.name` of the recorded model."""
    tools: tuple[str, ...] = ()
    """Sandbox tools that it brings: agents show them in their prompts."""
    window: int | None = None
    """Tokens it has for this place and role: agents plan with it."""


@dataclass(frozen=True)
class Line:
    """An exchange with all messages of its request, and where its line ends in the file (bytes)."""

    exchange: Exchange
    messages: tuple[RecordedMessage, ...]
    end: int

    @property
    def asked(self) -> Asked:
        """The request in short."""
        place, role = self.exchange.place, self.exchange.role
        return Asked(request_key(place, role, [message.print for message in self.messages]), place, role)


def _ignore(notice: str) -> None:
    del notice


def read(path: Path, notice: Callable[[str], None] = _ignore) -> Iterator[Line]:
    """The exchanges of a session. A half-written last line, as a killed process leaves it, is left out with a `notice`.

    Raises StoreError for a file that cannot be read or is malformed before its last line.
    """
    requests: dict[int, tuple[RecordedMessage, ...]] = {}
    end = 0
    for number, raw in enumerate(_raw_lines(path), start=1):
        if not raw.endswith(b"\n"):
            notice(f"{path}: line {number} is half-written and was left out")
            return
        exchange = _parse(path, number, raw)
        before = requests.get(exchange.after, ()) if exchange.after is not None else ()
        if len(before) < exchange.keeps:
            raise StoreError(f"{path}, line {number}: refers to messages that are not there", hint="it is damaged")
        requests[exchange.n] = (*before[: exchange.keeps], *exchange.messages)
        end += len(raw)
        yield Line(exchange, requests[exchange.n], end)


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _parse(path: Path, number: int, raw: bytes) -> Exchange:
    try:
        exchange = Exchange.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{path}, line {number}: {where}: {first['msg']}".replace(": : ", ": "),
            hint="it is no recording, is damaged, or another version of uchide wrote it",
        ) from error
    if exchange.n != number:
        raise StoreError(f"{path}, line {number}: it says that it is line {exchange.n}", hint="it is damaged")
    return exchange


def line_bytes(data: dict[str, Any]) -> bytes:
    """A line of the file, ASCII: what breaks lines elsewhere (U+2028) stays inside it. Lone surrogates, which no file
    holds, are replaced, as agents do it."""
    text = json.dumps(data, ensure_ascii=False)
    fit = json.loads(text.encode("utf-8", "replace"))
    return json.dumps(fit, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
