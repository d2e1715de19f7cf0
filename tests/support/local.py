"""A sandbox for tests only: real processes in a temporary folder, with no isolation at all.

`/testbed`, `/share`, `/tmp` and `/tools` inside commands, paths and environment values stand for folders of one root.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from uchide.errors import SandboxError
from uchide.protocols import Command, ExecResult, SandboxSpec
from uchide.tools import tools_dir

_PATH = re.compile(r"(?<![\w./-])/(testbed|share|tmp|tools)(?=/|\b)")


@dataclass
class LocalSandbox:
    root: Path
    env: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    cpu: float = 0.0

    def _map(self, text: str) -> str:
        return _PATH.sub(lambda match: f"{self.root}/{match[1]}", text)

    async def run(self, command: Command) -> ExecResult:
        self.commands.append(command)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": f"{self.root}/tmp", "TMPDIR": f"{self.root}/tmp"}
        env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {name: self._map(value) for name, value in (self.env | dict(command.env)).items()}
        start = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(self._map(arg) for arg in command.argv),
            cwd=self._map(command.cwd),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(command.stdin), command.timeout_s)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            return ExecResult(None, b"", killed="timeout", wall_s=time.monotonic() - start)
        return self._result(output, process.returncode, command, time.monotonic() - start)

    def _result(self, output: bytes, code: int | None, command: Command, wall: float) -> ExecResult:
        output = output.replace(str(self.root).encode() + b"/", b"/")
        limit = command.output_limit
        omitted = max(0, len(output) - limit)
        kept = output[: limit // 2] + output[len(output) - limit // 2 :] if omitted else output
        return ExecResult(code, kept, omitted=omitted, wall_s=wall)

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        file = Path(self._map(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o755 if executable else 0o644)

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        data = Path(self._map(path)).read_bytes()
        if not path.endswith(".tar"):
            data = data.replace(str(self.root).encode() + b"/", b"/")
        if len(data) > limit:
            raise SandboxError(f"{path} is larger than {limit} bytes")
        return data

    async def cpu_seconds(self) -> float:
        return self.cpu

    @property
    def testbed(self) -> Path:
        return self.root / "testbed"

    @property
    def share(self) -> Path:
        return self.root / "share"


@dataclass
class LocalProvider:
    """Copies the tree (a folder), makes it a repository with one commit, and opens a LocalSandbox on it."""

    name: str = "local"
    specs: list[SandboxSpec] = field(default_factory=list)
    opened: list[LocalSandbox] = field(default_factory=list)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[LocalSandbox]:
        self.specs.append(spec)
        with tempfile.TemporaryDirectory(prefix="uchide-local-") as folder:
            root = Path(folder)
            shutil.copytree(spec.tree, root / "testbed", symlinks=True)
            for name in ("share", "tmp"):
                (root / name).mkdir()
            (root / "tools").symlink_to(tools_dir())
            if not (root / "testbed/.git").exists():
                commit_all(root / "testbed")
            sandbox = LocalSandbox(root, dict(spec.env))
            self.opened.append(sandbox)
            yield sandbox


def git(folder: Path, *args: str) -> str:
    """Run the host's git in `folder`, free of the host's configuration."""
    env = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
    }
    who = ("-c", "user.name=Uchide", "-c", "user.email=uchide@localhost", "-c", "safe.directory=*")
    return subprocess.run(
        ("git", *who, *args), cwd=folder, env=env, check=True, capture_output=True, text=True, errors="replace"
    ).stdout


def commit_all(folder: Path) -> None:
    """Make `folder` a repository with one commit, the base."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", "base")
