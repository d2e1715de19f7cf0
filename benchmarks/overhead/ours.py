"""Our side: the phases agent with a scripted model, over the bare executor or over a real sandbox."""

import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from overhead.bare import Bare, Clock, command
from uchide import agents
from uchide.protocols import ChatReply, ChatRequest, Command, ExecResult, Sandbox, SandboxProvider, SandboxSpec, Task
from uchide.records import Environment, Issue, PublicInstance, Usage

_PATH = re.compile(r"(?<![\w./-])/(testbed|share|tmp)(?=/|\b)")


@dataclass
class BareSandbox:
    """`/testbed`, `/share` and `/tmp` stand for folders under `root`. For this benchmark only: it isolates nothing."""

    root: Path
    bare: Bare
    env: dict[str, str]

    def _map(self, text: str) -> str:
        return _PATH.sub(lambda match: f"{self.root}/{match[1]}", text)

    async def run(self, command: Command) -> ExecResult:
        argv = [self._map(arg) for arg in command.argv]
        code, output = self.bare.run(argv, self._map(command.cwd), self.env, command.stdin, command.timeout_s)
        return ExecResult(code, output.replace(f"{self.root}/".encode(), b"/"))

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        Path(self._map(path)).write_bytes(data)

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        return Path(self._map(path)).read_bytes()

    async def cpu_seconds(self) -> float:
        return 0.0


@dataclass
class BareProvider:
    bare: Bare
    folder: Path
    name: str = "bare"

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        for name in ("share", "tmp"):
            (self.folder / name).mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": f"{self.folder}/tmp", "TMPDIR": f"{self.folder}/tmp"}
        yield BareSandbox(self.folder, self.bare, env)


@dataclass
class Timed:
    """A real sandbox whose commands are timed from outside."""

    sandbox: Sandbox
    bare: Bare

    async def run(self, command: Command) -> ExecResult:
        start = time.perf_counter()
        try:
            return await self.sandbox.run(command)
        finally:
            self.bare.seconds += time.perf_counter() - start

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        await self.sandbox.write(path, data, executable=executable)

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        return await self.sandbox.read(path, limit=limit)

    async def cpu_seconds(self) -> float:
        return await self.sandbox.cpu_seconds()


@dataclass
class TimedProvider:
    bare: Bare
    inner: SandboxProvider
    name: str = "timed"

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        async with self.inner.open(spec) as sandbox:
            yield Timed(sandbox, self.bare)


@dataclass
class Model:
    clock: Clock
    name: str = "scripted"
    tools: tuple[str, ...] = ()
    step: int = field(default=0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.clock.tick()
        self.step += 1
        text = f"WORKFLOW: W0\nTHOUGHT: step {self.step}\nFINAL_ANSWER:\n<tool: bash> {command(self.step)} </tool>"
        return ChatReply(text, Usage(calls=1, prompt_tokens=1, completion_tokens=1))

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return None

    async def aclose(self) -> None:
        pass


def make_tree(folder: Path) -> Path:
    """A repository with one commit."""
    tree = folder / "testbed"
    tree.mkdir()
    (tree / "a.py").write_text("x = 1\n")
    git = ("git", "-c", "user.name=Uchide", "-c", "user.email=uchide@localhost")
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "base")):
        subprocess.run((*git, *args), cwd=tree, check=True)
    return tree


async def run(steps: int, folder: Path, inner: SandboxProvider | None = None) -> tuple[list[float], float]:
    """Seconds of each step without its command, and mean seconds of a command."""
    tree, bare = make_tree(folder), Bare()
    clock = Clock(bare, [])
    issue = Issue(instance_id="bench__overhead-1", repo="bench/overhead", problem_statement="benchmark")
    instance = PublicInstance(issue=issue, environment=Environment(key="none", python="3"), tree="none")
    # The host's own system Python will do: no environment is mounted.
    task = Task("main", "r01_s1001", 1001, instance, tree, None, None, folder / "t.jsonl.zst")  # type: ignore[arg-type]
    limits = {"steps": steps + 1, "handover_turns": 10**6}
    agent = agents.create({"limits": limits, "phases": {"ISSUE_REPRODUCE": {"turns": 10**6}}})
    provider = TimedProvider(bare, inner) if inner else BareProvider(bare, folder)
    await agent.rollout(task, Model(clock), provider)
    return clock.steps(), (clock.marks[-1][1] - clock.marks[0][1]) / steps
