"""Trajectory files: append-only JSON lines under zstd, one flushed block per record (docs/trajectory.md).

All records of a file share one zstd frame, so repeated text costs little; each is flushed as it is written, so a
killed process loses at most the record in hand. Writing one record takes the same time whatever came before.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal

import zstandard
from pydantic import Field, TypeAdapter, ValidationError

from uchide.errors import StoreError
from uchide.protocols import Message, ToolCall
from uchide.records import ExitStatus, Record, Usage
from uchide.redact import Redactor, only, redactor

PhaseExit = Literal["complete", "giveup", "turn_limit", "ended"]
"""How the phases agent leaves a phase."""


class HeaderRecord(Record):
    """First record: whose trajectory this is."""

    kind: Literal["header"] = "header"
    schema_version: Literal[1] = 1
    candidate_id: str
    arm: str
    run: str
    seed: int
    instance_id: str
    agent: str
    model: str
    base_tree: str
    """Git tree id that the patch is measured from."""
    tools: tuple[str, ...] = ()
    action_format: str = ""
    edges: tuple[tuple[str, str, str], ...] = ()
    """(phase or node, exit, next): the only ways on that were declared."""


class ToolCallRecord(Record):
    """A call of an API tool; `arguments` as the server gave them."""

    id: str
    name: str
    arguments: str

    def tool_call(self) -> ToolCall:
        return ToolCall(self.id, self.name, self.arguments)


class MessageRecord(Record):
    """One chat message as sent."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCallRecord, ...] = ()
    tool_call_id: str = ""

    @classmethod
    def of(cls, message: Message) -> "MessageRecord":
        calls = tuple(ToolCallRecord(**vars(call)) for call in message.tool_calls)
        return cls(role=message.role, content=message.content, tool_calls=calls, tool_call_id=message.tool_call_id)

    def message(self) -> Message:
        calls = tuple(call.tool_call() for call in self.tool_calls)
        return Message(self.role, self.content, calls, self.tool_call_id)


class CallRecord(Record):
    """A request that stands for itself, outside the conversation: a formatter's, a summary."""

    kind: Literal["call"] = "call"
    turn: int
    """The turn it belongs to: the next `turn` record."""
    phase: str
    visit: int
    role: str
    messages: tuple[MessageRecord, ...]
    reply: str
    tool_calls: tuple[ToolCallRecord, ...] = ()
    usage: Usage = Usage()
    t: float


class ContextRecord(Record):
    """The conversation was (re)built: it now consists of exactly these messages."""

    kind: Literal["context"] = "context"
    phase: str
    visit: int
    role: str = "agent"
    reason: Literal["enter", "handover", "compaction"]
    messages: tuple[MessageRecord, ...]


class TurnRecord(Record):
    """One request and what came of it. Afterwards the conversation has grown by `reply` and `observation`."""

    kind: Literal["turn"] = "turn"
    n: int
    """Counts from 1 over the whole rollout."""
    phase: str
    visit: int
    role: str = "agent"
    reply: str
    tool_calls: tuple[ToolCallRecord, ...] = ()
    token: str = ""
    """W0.., COMPLETE, GIVEUP or HANDOVER; empty with a format error, and where the agent has no such tokens."""
    tool: str = ""
    """The tool that the action calls (`bash`, ...); empty without an action."""
    action: str | None = None
    """The command of `bash`; the arguments of any other tool as JSON."""
    returncode: int | str | None = None
    """Of the action: a number, or why it was killed (`timeout`, `memory`, ...)."""
    observation: str | None = None
    """The user message that answered the reply; None when the conversation ended with it."""
    format_error: str | None = None
    rejected: tuple[str, ...] = ()
    """Products that were missing when COMPLETE was refused."""
    usage: Usage = Usage()
    t: float
    """Seconds since the rollout began."""


class ShareFile(Record):
    """A file of the share; `text` only where it is text, small, and changed since the last archive (`sha256` is empty
    for a file too large to be read)."""

    path: str
    size: int
    sha256: str
    text: str | None = None


class PhaseRecord(Record):
    """A phase was left; `next` is None at the end of the rollout."""

    kind: Literal["phase"] = "phase"
    phase: str
    visit: int
    exit: str
    """A `PhaseExit` of the phases agent, or what a node of the blueprint agent decided by."""
    next: str | None
    turns: int
    memo: str = ""
    share: tuple[ShareFile, ...] = ()


class EndRecord(Record):
    """Last record of a rollout that came to an end by itself."""

    kind: Literal["end"] = "end"
    exit_status: ExitStatus
    error: str = ""
    turns: int
    format_errors: int
    usage: Usage
    patch_sha256: str | None = None
    suite_sha256: str | None = None
    warnings: tuple[str, ...] = ()
    t: float


TrajectoryRecord = Annotated[
    HeaderRecord | ContextRecord | TurnRecord | CallRecord | PhaseRecord | EndRecord, Field(discriminator="kind")
]
_RECORD: TypeAdapter[TrajectoryRecord] = TypeAdapter(TrajectoryRecord)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of one line of a file."""
    schema = _RECORD.json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A record of a trajectory", **schema}


_FREE_TEXT = frozenset(
    {
        "content",
        "reply",
        "arguments",
        "action",
        "observation",
        "format_error",
        "memo",
        "path",
        "text",
        "error",
        "warnings",
    }
)
"""Fields that may hold a secret; all others are structure."""


class TrajectoryWriter:
    """Writes one file from its beginning; an older file at `path` is replaced. Use as a context manager."""

    def __init__(self, path: Path, redact: Redactor | None = None) -> None:
        self._redact = only(redactor() if redact is None else redact, _FREE_TEXT)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")
        except OSError as error:
            raise _unwritable(path, error) from error
        self._stream = zstandard.ZstdCompressor(level=3).stream_writer(self._file, closefd=True)

    def write(self, record: TrajectoryRecord) -> None:
        """Append one record. Raises StoreError when it cannot be written (a full disk)."""
        data = self._redact(record.model_dump())
        # ASCII: U+2028 and lone surrogates stay inside their line and inside UTF-8.
        line = json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        try:
            self._stream.write(line)
            self._stream.flush(zstandard.FLUSH_BLOCK)
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._file.name, error) from error

    def __enter__(self) -> "TrajectoryWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stream.close()  # type: ignore[no-untyped-call]
        except OSError as last:
            self._file.close()
            if error is None:
                raise _unwritable(self._file.name, last) from last


def _unwritable(path: str | Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write the trajectory {path}: {error.strerror}",
        hint="free some space or fix the permissions, then run the same command again: finished rows are kept",
    )


def _ignore(notice: str) -> None:
    del notice


def read(path: Path, notice: Callable[[str], None] = _ignore) -> Iterator[TrajectoryRecord]:
    """The records of a trajectory, in order. A cut or half-written tail ends the iteration with a `notice`.

    Raises StoreError for a file that is not a trajectory, or that is malformed before its last line.
    """
    number, rest = 0, b""
    for block in _blocks(path):
        if isinstance(block, str):
            if not number and not rest:
                raise StoreError(f"{path} is not a trajectory: {block}")
            notice(f"{path}: damaged after record {number} ({block})")
            return
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            yield _parse(path, number, line)
        if not block:
            notice(f"{path}: the file is cut; {number} records are whole")


def _blocks(path: Path) -> Iterator[bytes | str]:
    """The decompressed file in pieces; last, an empty one when the file ends within its frame (cut, or still being
    written), or what is wrong with it as text."""
    stream = zstandard.ZstdDecompressor().decompressobj()
    size = 0
    try:
        with path.open("rb") as file:
            while not stream.eof and (data := file.read(1 << 16)):
                size += len(data)
                if text := stream.decompress(data):
                    yield text
            more = bool(stream.unused_data or file.read(1))
    except zstandard.ZstdError as error:
        yield str(error)
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if more:
        yield "something follows its end"
    elif size and not stream.eof:
        yield b""


def _parse(path: Path, number: int, line: bytes) -> TrajectoryRecord:
    try:
        record = _RECORD.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"{path}, record {number}: {where}: {first['msg']}",
            hint="it is damaged, or another version of uchide wrote it",
        ) from error
    if number == 1 and not isinstance(record, HeaderRecord):
        raise StoreError(f"{path} does not begin with a header record", hint="It is not a trajectory of Uchide.")
    return record


def exchange(reply: str, observation: str, tool_calls: Sequence[ToolCall] = ()) -> list[Message]:
    """What a conversation grows by: the reply, and the observation as user or, after API tool calls, as the answer of
    the first one (the API wants an answer for each of them)."""
    if not tool_calls:
        return [Message("assistant", reply), Message("user", observation)]
    answers = [
        Message("tool", "Not executed." if number else observation, tool_call_id=call.id)
        for number, call in enumerate(tool_calls)
    ]
    return [Message("assistant", reply, tuple(tool_calls)), *answers]


def conversation(records: Iterable[TrajectoryRecord]) -> Iterator[tuple[TurnRecord, list[Message]]]:
    """Every turn with the messages of its request, rebuilt from the records."""
    messages: list[Message] = []
    for record in records:
        if isinstance(record, ContextRecord):
            messages = [message.message() for message in record.messages]
        elif isinstance(record, TurnRecord):
            yield record, list(messages)
            if record.observation is not None:
                calls = [call.tool_call() for call in record.tool_calls]
                messages += exchange(record.reply, record.observation, calls)
