"""Many rollouts of the phases agent at once, each in a sandbox of its own, timed from outside."""

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from many.memory import Memory, measure
from uchide import agents
from uchide.agents.phases.conversation import SHELL
from uchide.protocols import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Command,
    ExecResult,
    Sandbox,
    SandboxProvider,
    SandboxSpec,
    Task,
)
from uchide.records import Environment, Issue, PublicInstance

FILES = 40
SAMPLE_S = 5.0
DISK = ("/bin/sh", "-c", "df -k --output=used /testbed /tmp /share /dev/shm")
"""The writable folders are memory too, and belong to no process."""


@dataclass
class Log:
    """What happened. Times are seconds of the monotonic clock."""

    without: frozenset[int]
    """Processes whose memory is not ours: the server."""
    steps: dict[str, list[float]] = field(default_factory=dict)
    """Rollout -> when each of its actions ended."""
    commands: list[float] = field(default_factory=list)
    """Seconds that each action took inside its sandbox."""
    replies: list[float] = field(default_factory=list)
    """Seconds that each answer took."""
    files_kb: int = 0
    """Content of all sandboxes at their end."""
    peak: Memory = field(default_factory=Memory)

    async def sample(self) -> None:
        """Look at the memory now."""
        now = await asyncio.to_thread(measure, os.getpid(), self.without)
        self.peak = max(self.peak, now, key=lambda sample: sample.total)

    async def watch(self) -> None:
        """Look at it again and again."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            await self.sample()

    def window(self) -> tuple[float, float]:
        """From when the last rollout has made its first step to when the first one has made its last."""
        return max(times[0] for times in self.steps.values()), min(times[-1] for times in self.steps.values())

    def rate(self) -> float:
        """Steps per second in the window: the sum of the rollouts' own rates, each over whole steps."""
        start, end = self.window()
        inside = ([at for at in times if start <= at <= end] for times in self.steps.values())
        return sum((len(times) - 1) / (times[-1] - times[0]) for times in inside if len(times) > 1)

    def command(self) -> float:
        """Median seconds of an action."""
        return statistics.median(self.commands)


@dataclass
class TimedModel:
    model: ChatModel
    log: Log
    name: str = "timed"
    tools: tuple[str, ...] = ()

    async def complete(self, request: ChatRequest) -> ChatReply:
        start = time.monotonic()
        reply = await self.model.complete(request)
        self.log.replies.append(time.monotonic() - start)
        return reply

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return await self.model.window(place, role)

    async def aclose(self) -> None:
        await self.model.aclose()


@dataclass
class TimedSandbox:
    sandbox: Sandbox
    log: Log
    times: list[float]

    async def run(self, command: Command) -> ExecResult:
        result = await self.sandbox.run(command)
        if command.argv[: len(SHELL)] == SHELL:
            self.times.append(time.monotonic())
            self.log.commands.append(result.wall_s)
        return result

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        await self.sandbox.write(path, data, executable=executable)

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        return await self.sandbox.read(path, limit=limit)

    async def cpu_seconds(self) -> float:
        return await self.sandbox.cpu_seconds()


@dataclass
class TimedProvider:
    """For one rollout."""

    inner: SandboxProvider
    log: Log
    rollout: str
    name: str = "timed"

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        async with self.inner.open(spec) as sandbox:
            yield TimedSandbox(sandbox, self.log, self.log.steps.setdefault(self.rollout, []))
            if not self.log.files_kb:
                await self.log.sample()  # the first to end: all the others are still there
            used = await sandbox.run(Command(DISK, cwd="/"))
            self.log.files_kb += sum(map(int, used.output.split()[1:]))


def make_tree(folder: Path) -> Path:
    """A repository of a few files with one commit."""
    tree = folder / "testbed"
    (tree / "src").mkdir(parents=True)
    for n in range(FILES):
        functions = (f"def function_{n}_{i}(value):\n    return value + {i}\n" for i in range(20))
        (tree / f"src/module_{n}.py").write_text("value = 0\n\n\n" + "\n\n".join(functions))
    git = ("git", "-c", "user.name=Uchide", "-c", "user.email=uchide@localhost")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "base")):
        subprocess.run((*git, *args), cwd=tree, check=True)
    return tree


async def run(rollouts: int, steps: int, model: ChatModel, provider: SandboxProvider, folder: Path, server: int) -> Log:
    """Play `rollouts` rollouts of `steps` steps at once. `server` is the process whose memory is not ours."""
    log, tree = Log(frozenset({server})), make_tree(folder)
    limits = {"steps": steps, "handover_turns": 10**6, "tokens": 10**12}
    agent = agents.create({"limits": limits, "phases": {"ISSUE_REPRODUCE": {"turns": 10**6}}})
    issue = Issue(instance_id="bench__concurrency-1", repo="bench/concurrency", problem_statement="benchmark")
    instance = PublicInstance(issue=issue, environment=Environment(key="none", python="3"), tree="none")
    timed = TimedModel(model, log)

    async def one(number: int) -> None:
        run = f"r{number:02}_s{number}"
        file = folder / f"{run}.jsonl.zst"
        # The host's own system Python will do: no environment is mounted.
        task = Task("main", run, number, instance, tree, None, None, file)  # type: ignore[arg-type]
        await agent.rollout(task, timed, TimedProvider(provider, log, run))

    watcher = asyncio.create_task(log.watch())
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(1, rollouts + 1):
                group.create_task(one(number))
    finally:
        watcher.cancel()
    return log
