"""The tools of the blueprint agent: a registry from name to JSON schema and the function that acts in the sandbox.

Whatever goes wrong inside a tool (unknown tool, bad arguments, no such file) is an observation for the model.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from uchide.actions import Call
from uchide.agents.blueprint import reading
from uchide.agents.blueprint.state import GatherQueue, Note
from uchide.agents.observation import render, returncode, shorten
from uchide.agents.session import Session
from uchide.patches.git import ROOT
from uchide.protocols import Command, ToolSpec

SHELL = ("/bin/bash", "-c")
FILE_BYTES = 2_000_000
_WRITE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'


@dataclass(frozen=True)
class ToolResult:
    """What the model reads of a call, and how it ended (`error` for a call that was refused)."""

    text: str
    code: int | str = 0


@dataclass
class Bench:
    """What tools work on: the session's sandbox, and the reading list while there is one."""

    session: Session
    queue: GatherQueue | None = None


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Nothing(_Arguments):
    pass


class _Bash(_Arguments):
    command: StrictStr = Field(min_length=1, max_length=100_000, description="Run by bash, in a fresh shell.")


class _Read(_Arguments):
    path: StrictStr = Field(min_length=1, description="Relative to the repository, or absolute.")
    start: StrictInt = Field(default=1, ge=1, description="First line, from 1.")
    lines: StrictInt = Field(default=300, ge=1, le=2000, description="How many lines.")


class _Write(_Arguments):
    path: StrictStr = Field(min_length=1, description="Relative to the repository, or absolute.")
    content: StrictStr = Field(description="The whole new content of the file.")


class _Replace(_Arguments):
    path: StrictStr = Field(min_length=1, description="Relative to the repository, or absolute.")
    old: StrictStr = Field(min_length=1, description="Text that stands in the file exactly once, blanks included.")
    new: StrictStr = Field(description="What takes its place.")


class _Enqueue(_Arguments):
    path: StrictStr = Field(min_length=1, description="A file of the repository.")
    why: StrictStr = Field(min_length=1, description="Why it has to be read.")


class _Note(_Arguments):
    path: StrictStr = Field(min_length=1, description="The file that the note is about.")
    text: StrictStr = Field(min_length=1, description="What matters here for the repair.")
    line: StrictInt = Field(default=0, ge=0, description="The line it is about; 0 for the whole file.")
    relevant: StrictBool = Field(default=True, description="False where the file has nothing to do with the issue.")


async def _bash(given: _Bash, bench: Bench) -> ToolResult:
    session = bench.session
    if "\0" in given.command or len(given.command.encode()) > 100_000:
        return _error("the command holds a NUL character, or is longer than 100,000 bytes")
    limits = session.limits
    timeout = min(limits.action_timeout_s, session.seconds_left())
    result = await session.sandbox.run(
        Command((*SHELL, given.command), timeout_s=timeout, output_limit=max(200_000, 8 * limits.output_chars))
    )
    return ToolResult(render(result, limits.output_chars), returncode(result))


async def _read(given: _Read, bench: Bench) -> ToolResult:
    text = await _text_of(bench, given.path)
    if isinstance(text, ToolResult):
        return text
    lines = text.splitlines()
    shown = lines[given.start - 1 : given.start - 1 + given.lines]
    if not shown:
        return _error(f"{given.path} has {len(lines)} lines")
    numbered = "\n".join(f"{number:6}  {line}" for number, line in enumerate(shown, start=given.start))
    last = given.start + len(shown) - 1
    head = f"{given.path}, lines {given.start} to {last} of {len(lines)}"
    return ToolResult(f"{head}\n{shorten(numbered, bench.session.limits.output_chars)}")


async def _write(given: _Write, bench: Bench) -> ToolResult:
    return await _put(bench, given.path, given.content)


async def _replace(given: _Replace, bench: Bench) -> ToolResult:
    text = await _text_of(bench, given.path)
    if isinstance(text, ToolResult):
        return text
    if (times := text.count(given.old)) != 1:
        found = "does not stand" if not times else f"stands {times} times"
        return _error(f"`old` {found} in {given.path}; it must stand there exactly once")
    return await _put(bench, given.path, text.replace(given.old, given.new))


async def _enqueue(given: _Enqueue, bench: Bench) -> ToolResult:
    path = reading.plain(given.path)
    if not await reading.existing(bench.session.sandbox, [path]):
        return _error(f"there is no file {given.path} in the repository")
    before = _list(bench)
    bench.queue = reading.enqueue(before, path, given.why)
    if bench.queue == before:
        return ToolResult(f"{path} was read or is in the queue already; {len(before.queue)} to read")
    return ToolResult(f"{path} is in the queue; {len(bench.queue.queue)} to read")


async def _dequeue(_: _Nothing, bench: Bench) -> ToolResult:
    bench.queue = reading.dequeue(_list(bench))
    queue = bench.queue
    if queue.current is None:
        return ToolResult("the queue is empty")
    lines = ", ".join(map(str, queue.lines.get(queue.current, ())))
    where = f" (lines {lines} in the traceback)" if lines else ""
    why = f": {reason}" if (reason := queue.why.get(queue.current)) else ""
    return ToolResult(f"Read {queue.current}{where}{why}. {len(queue.queue)} more to read.")


async def _note(given: _Note, bench: Bench) -> ToolResult:
    note = Note(path=reading.plain(given.path), line=given.line, text=given.text, relevant=given.relevant)
    bench.queue = reading.noted(_list(bench), note)
    return ToolResult(f"noted; {len(bench.queue.notes)} notes")


@dataclass(frozen=True)
class Tool:
    """One tool: what the model is told, and what it does. `run` gets validated arguments."""

    about: str
    arguments: type[_Arguments]
    run: Callable[[Any, Bench], Awaitable[ToolResult]]


TOOLS: dict[str, Tool] = {
    "bash": Tool("Run a command in the repository; you get its return code and output.", _Bash, _bash),
    "read": Tool("Show lines of a file with their numbers.", _Read, _read),
    "write": Tool("Write a whole file, making its folders.", _Write, _write),
    "replace": Tool("Replace one piece of text in a file.", _Replace, _replace),
    "enqueue": Tool("Put a file on the reading list.", _Enqueue, _enqueue),
    "dequeue": Tool("Take the next file from the reading list.", _Nothing, _dequeue),
    "note": Tool("Keep a note on a file for the one who repairs the code.", _Note, _note),
}


def tool_specs(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """The tools as an API announces them."""
    return tuple(ToolSpec(name, TOOLS[name].about, _schema(TOOLS[name].arguments)) for name in names)


async def call_tool(call: Call, names: Iterable[str], bench: Bench) -> ToolResult:
    """Do what a model asked for. Only a broken sandbox (SandboxError) or a limit (RolloutEnded) gets out of here."""
    allowed = tuple(names)
    if call.name not in allowed:
        return _error(f"there is no tool {call.name[:40]!r} here; there are {', '.join(allowed)}")
    tool = TOOLS[call.name]
    try:
        given = tool.arguments.model_validate(dict(call.arguments))
    except ValidationError as error:
        return _error(f"{call.name}: {_faults(error)}")
    return await tool.run(given, bench)


def _faults(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(f"`{'.'.join(str(part)[:40] for part in one['loc'])}`: {one['msg']}" for one in found[:5])


def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """JSON Schema without the titles pydantic adds."""
    schema = model.model_json_schema()
    properties = {
        name: {key: value for key, value in one.items() if key != "title"}
        for name, one in schema.get("properties", {}).items()
    }
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _error(text: str) -> ToolResult:
    return ToolResult(f"error: {text}", "error")


def _list(bench: Bench) -> GatherQueue:
    return bench.queue if bench.queue is not None else GatherQueue()


async def _text_of(bench: Bench, path: str) -> str | ToolResult:
    """A file as text, line ends untouched, or what to tell the model."""
    script = '[ -f "$1" ] || exit 3; head -c "$2" -- "$1"'
    argv = ("/bin/sh", "-c", script, "sh", _absolute(path), str(FILE_BYTES + 1))
    done = await bench.session.sandbox.run(Command(argv, cwd=ROOT, timeout_s=60, output_limit=FILE_BYTES + 2))
    if done.returncode == 3 or "\0" in path:
        return _error(f"there is no file {path}")
    if done.returncode != 0:
        return _error(done.output.decode("utf-8", "replace").strip() or f"{path} cannot be read")
    if len(done.output) > FILE_BYTES:
        return _error(f"{path} is larger than {FILE_BYTES:,} bytes; use bash")
    try:
        return done.output.decode()
    except UnicodeDecodeError:
        return _error(f"{path} is not UTF-8; use bash")


async def _put(bench: Bench, path: str, content: str) -> ToolResult:
    # Through a shell, not Sandbox.write: the file keeps its mode, and a link stays a link.
    argv = ("/bin/sh", "-c", _WRITE, "sh", _absolute(path))
    done = await bench.session.sandbox.run(Command(argv, cwd=ROOT, stdin=content.encode(), timeout_s=60))
    if done.returncode != 0:
        return _error(done.output.decode("utf-8", "replace").strip() or f"{path} cannot be written")
    return ToolResult(f"wrote {path} ({content.count(chr(10))} lines)")


def _absolute(path: str) -> str:
    clean = path.replace("\0", "")
    return clean if clean.startswith("/") else f"{ROOT}/{clean}"
