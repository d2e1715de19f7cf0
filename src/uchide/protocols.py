"""The four seams of Uchide as small async protocols: `Sandbox`, `ChatModel`, `Agent`, `Grader`.

An experiment names implementations; everything else talks to these. They stand on the ground floor so that any
module may speak them. What passes through them in memory is a plain frozen dataclass, not a validated model.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from uchide.records import Candidate, HiddenInstance, PublicInstance, Usage, Verdict


# --- sandboxes -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Limits:
    """What one sandbox may use. Sizes in MiB."""

    memory_mb: int = 3072
    processes: int = 200
    disk_mb: int = 1536
    """Work tree, share and /tmp together."""
    file_mb: int = 512
    """Largest single file."""


@dataclass(frozen=True)
class Mount:
    """A host folder or file shown read-only at `guest`."""

    host: Path
    guest: str


@dataclass(frozen=True)
class SandboxSpec:
    """Everything a sandbox is made from. Nothing else of the host is visible inside."""

    tree: Path
    """A `.tar.zst` archive or a folder; its content is copied to `/testbed`."""
    environment: Path | None = None
    """The built environment, mounted read-only at `/env`; None leaves the host's system Python."""
    python_home: Path | None = None
    """Base prefix of the environment's interpreter, mounted read-only at the same path."""
    tools: tuple[str, ...] = ()
    """Names of files or folders of `uchide/tools` to show under `/tools`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the sandbox's own fixed environment variables."""
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()


@dataclass(frozen=True)
class Command:
    """One command. Standard output and error arrive together, in order."""

    argv: tuple[str, ...]
    cwd: str = "/testbed"
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout_s: float = 600.0
    output_limit: int = 1_000_000
    """Bytes kept; of more, the first and last halves are kept and the middle is counted."""


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. `returncode` is None when we killed it (`killed` says why)."""

    returncode: int | None
    output: bytes
    omitted: int = 0
    """Bytes of output left out between head and tail."""
    killed: Literal["", "timeout", "memory", "output", "processes"] = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0


class Sandbox(Protocol):
    """A running sandbox: one work tree, one share, no network."""

    async def run(self, command: Command) -> ExecResult:
        """Run to the end. On a time-out or exhausted memory the whole process tree is killed.

        Raises SandboxError when the sandbox itself died.
        """
        ...

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write one file, making its folders."""
        ...

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        """Read a regular file inside; FileNotFoundError where there is none, SandboxError when larger than `limit`."""
        ...

    async def cpu_seconds(self) -> float:
        """CPU seconds spent inside so far, children included."""
        ...


class SandboxProvider(Protocol):
    """A way to run sandboxes on this host (`bwrap`, ...)."""

    name: str

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Start one; leaving the context kills every process in it and frees its disk."""
        ...


# --- models ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ToolCall:
    """A call of an API tool as the server gave it; `arguments` is JSON text, perhaps malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the API announces it; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Message:
    """One chat message. Tool calls belong to an assistant, `tool_call_id` to the `tool` message that answers one."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters; None leaves the server's default."""

    seed: int = 0
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True)
class ChatRequest:
    """What is asked, and for whom. A model must neither change nor keep `messages`."""

    messages: Sequence[Message]
    sampling: Sampling
    session: str = ""
    """The rollout (`<arm>.<run>.<instance_id>`)."""
    group: str = ""
    """The instance: requests of one group share a server, so that its prefix cache serves all candidates."""
    place: str = ""
    """Phase or node."""
    role: str = "agent"
    tools: tuple[ToolSpec, ...] = ()
    """Tools of the API; empty unless the action format is `native`."""
    paused: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered by a model while it waits for its turn or for a server that refuses: such time is not the rollout's."""


@dataclass(frozen=True)
class ChatReply:
    """One completion."""

    text: str
    usage: Usage
    finish_reason: str = "stop"
    """`stop`, `length` or `tool_calls`; a model raises ModelError for any other ending."""
    model: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


class ChatModel(Protocol):
    """A chat model. Raises ModelError (with `retryable`) when it cannot answer, ContextOverflow when the request is too
    long for it."""

    name: str
    tools: tuple[str, ...]
    """Sandbox tools offered to this model beside those of the agent's configuration."""

    async def complete(self, request: ChatRequest) -> ChatReply: ...

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        """Tokens that a prompt and its answer may have together; None where nobody says."""
        ...

    async def aclose(self) -> None:
        """Give back connections and files. The model answers nothing afterwards."""
        ...


# --- agents ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Task:
    """One rollout to do."""

    arm: str
    run: str
    seed: int
    instance: PublicInstance
    tree: Path
    environment: Path
    python_home: Path
    trajectory: Path
    """Host path to write the trajectory to."""
    regression: tuple[str, ...] | None = None
    """The dataset's PASS_TO_PASS list, where the configuration asks for it (not leaderboard-valid)."""
    scratch: Path | None = None
    """Local file in which an agent may keep what a killed rollout can be resumed from; None: it is not resumable."""

    @property
    def candidate_id(self) -> str:
        return f"{self.arm}.{self.run}.{self.instance.instance_id}"


class Agent(Protocol):
    """Something that turns an issue into a candidate."""

    name: str

    async def rollout(self, task: Task, model: ChatModel, sandboxes: SandboxProvider) -> Candidate:
        """Bad endings are candidates; SandboxError and ModelError are the caller's to retry."""
        ...


# --- graders ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GradeRequest:
    """One patch to judge. `force` grades an empty patch too (preflight)."""

    instance: PublicInstance
    hidden: HiddenInstance
    patch: str
    tree: Path
    environment: Path
    python_home: Path
    force: bool = False


class Grader(Protocol):
    """Decides whether a patch resolves an instance. Never raises for what a patch does."""

    name: str
    version: str

    async def grade(self, request: GradeRequest) -> Verdict: ...


Progress = Callable[[str], None]
"""Called with one plain line per event worth showing."""
