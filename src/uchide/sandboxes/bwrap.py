"""The sandbox `bwrap`: one long-lived bubblewrap instance per sandbox, with our guest as its process 1.

The host's half: starting it, talking to the guest (see `guest.py` for the messages), and ending it.
"""

import asyncio
import contextlib
import errno
import json
import os
import platform
import resource
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from uchide.errors import SandboxError
from uchide.protocols import Command, ExecResult, Limits, SandboxSpec
from uchide.sandboxes import layout, program, seccomp, tree

FRAME = struct.Struct(">QQ")
START_S = 300.0
GRACE_S = 60.0
OPEN_FILES = 4096
THREADS_PER_PROCESS = 8


@dataclass
class BwrapProvider:
    """Makes `bwrap` sandboxes. Raises SandboxUnavailable where the host forbids them."""

    name: str = "bwrap"
    program: Path | None = None
    """The program bwrap; looked for at the first use."""

    @contextlib.asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator["BwrapSandbox"]:
        """Start a sandbox; leaving the context kills every process in it and frees its disk."""
        tree.check(spec.tree)
        self.program = self.program or program.find()
        fixed = layout.fixed_env() | dict(spec.env)
        args = layout.sandbox_args(spec)
        async with started(self.program, args, fixed, spec.limits, source=spec.tree) as sandbox:
            yield sandbox


@contextlib.asynccontextmanager
async def started(
    bwrap: Path,
    args: list[str],
    env: Mapping[str, str],
    limits: Limits,
    *,
    source: Path | None = None,
    shares: layout.Shares = layout.WRITABLE,
) -> AsyncIterator["BwrapSandbox"]:
    """Start bwrap with `args` and our guest in it, `source` copied to /testbed; end it with the context."""
    python, _ = layout.guest_python()
    read_fd, write_fd = os.pipe() if source else (None, None)
    settings = {"limits": _guest_limits(limits), "disks": list(shares), "fill": tree.fill(read_fd)}
    with tempfile.TemporaryFile() as errors, _memory_file(seccomp.filter_program()) as filter_fd:
        try:
            process = await asyncio.create_subprocess_exec(
                *(str(bwrap), *args, "--seccomp", str(filter_fd), "--"),
                *(str(python), "-I", "-S", layout.GUEST, json.dumps(settings)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={},
                cwd="/",
                pass_fds=[fd for fd in (filter_fd, read_fd) if fd is not None],
                limit=1 << 20,
            )
        except BaseException:
            _close(write_fd)
            raise
        finally:
            _close(read_fd)
        sandbox = BwrapSandbox(process, errors, env)
        try:
            await sandbox.ready(source, write_fd)
            yield sandbox
        finally:
            await sandbox.close()


class BwrapSandbox:
    """A running instance. Requests are answered one at a time, in order."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes], env: Mapping[str, str]) -> None:
        self._process = process
        self._errors = errors
        self._env = dict(env)
        self._lock = asyncio.Lock()
        self._gone = ""

    async def ready(self, source: Path | None, write_fd: int | None) -> None:
        """Copy `source` in through `write_fd`, which this closes, and wait for the guest's first word."""
        if source is not None and write_fd is not None:
            await asyncio.to_thread(tree.send, source, write_fd)
        try:
            async with asyncio.timeout(START_S):
                answer, output = await self._receive()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
            await self._kill()
            raise program.start_failure(self._told()) or self._dead("did not start") from error
        if answer["returncode"] != 0:
            said = output.decode("utf-8", "replace").strip()
            raise SandboxError(
                f"cannot copy {source} into the sandbox: {said or answer['killed']}",
                hint="if it does not fit, raise the sandbox's disk_mb: ten sixteenths of it are for the work tree",
            )

    async def run(self, command: Command) -> ExecResult:
        """Run to the end; the whole process tree is killed when a limit is met. Raises SandboxError."""
        head = {
            "op": "run",
            "argv": list(command.argv),
            "cwd": command.cwd,
            "env": self._env | dict(command.env),
            "timeout_s": command.timeout_s,
            "output_limit": command.output_limit,
        }
        answer, output = await self._ask(head, command.stdin, command.timeout_s + GRACE_S)
        return ExecResult(output=output, **answer)

    async def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write one file, making its folders. Raises SandboxError when there is no room or the place is unusable."""
        head = {"op": "write", "path": _absolute(path), "mode": 0o755 if executable else 0o644}
        answer, _ = await self._ask(head, data, GRACE_S)
        if "errno" in answer:
            raise SandboxError(f"cannot write {path} in the sandbox: {answer['error']}")

    async def read(self, path: str, *, limit: int = 16_000_000) -> bytes:
        """Read a regular file; FileNotFoundError where there is none, SandboxError when larger than `limit` bytes."""
        answer, data = await self._ask({"op": "read", "path": _absolute(path), "limit": limit}, b"", GRACE_S)
        if answer.get("errno") in (errno.ENOENT, errno.ENOTDIR):
            raise FileNotFoundError(errno.ENOENT, "no such file in the sandbox", path)
        if "errno" in answer:
            raise SandboxError(f"cannot read {path} from the sandbox: {answer['error']}")
        return data

    async def cpu_seconds(self) -> float:
        """Return the CPU seconds spent inside so far, those of dead and of living processes."""
        answer, _ = await self._ask({"op": "cpu"}, b"", GRACE_S)
        return float(answer["seconds"])

    async def close(self) -> None:
        """End everything inside and wait until the kernel has taken it down."""
        self._gone = self._gone or "is closed"
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await self._process.wait()
        await self._kill()

    async def _ask(self, head: dict[str, Any], data: bytes, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        async with self._lock:
            if self._gone:
                raise SandboxError(f"the sandbox {self._gone}")
            try:
                async with asyncio.timeout(timeout_s):
                    await self._send(head, data)
                    return await self._receive()
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
                await self._kill()
                raise self._dead("died" if not isinstance(error, TimeoutError) else "does not answer") from error
            except asyncio.CancelledError:
                self._gone = "was interrupted in the middle of a request"
                self._process_kill()
                raise

    async def _send(self, head: dict[str, Any], data: bytes) -> None:
        assert self._process.stdin is not None
        text = json.dumps(head).encode()
        self._process.stdin.write(FRAME.pack(len(text), len(data)) + text)
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def _receive(self) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdout is not None
        head, data = FRAME.unpack(await self._process.stdout.readexactly(FRAME.size))
        answer: dict[str, Any] = json.loads(await self._process.stdout.readexactly(head))
        return answer, await self._process.stdout.readexactly(data)

    def _process_kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _kill(self) -> None:
        self._process_kill()
        await self._process.wait()

    def _told(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace").strip()

    def _dead(self, how: str) -> SandboxError:
        self._gone = f"{how} (bwrap ended with {self._process.returncode})"
        return SandboxError(f"the sandbox {self._gone}: {self._told()[-2000:] or 'it said nothing'}")


def _absolute(path: str) -> str:
    return os.path.normpath(os.path.join("/testbed", path))  # noqa: PTH118 (a path of the sandbox, not of the host)


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    fd = os.memfd_create("uchide")
    try:
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _guest_limits(limits: Limits) -> dict[str, Any]:
    mib = 1 << 20
    rlimits = [
        (resource.RLIMIT_FSIZE, limits.file_mb * mib),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_DATA, 2 * limits.memory_mb * mib),
    ]
    threads = limits.processes * THREADS_PER_PROCESS
    if _tasks_count_per_sandbox():
        rlimits.append((resource.RLIMIT_NPROC, threads))
    return {"memory_mb": limits.memory_mb, "processes": limits.processes, "threads": threads, "rlimits": rlimits}


def _tasks_count_per_sandbox() -> bool:
    """Linux counts RLIMIT_NPROC per user namespace from 5.14 on; before, the user's other programs would count."""
    major, minor = platform.release().split(".")[:2]
    return (int(major), int("".join(c for c in minor if c.isdigit()))) >= (5, 14)
