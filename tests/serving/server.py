"""Server processes: started, waited for, stopped."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    start_s: float

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as reply:
            return reply.read().decode()

    def post(self, path: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", method="POST"), timeout=30).close()

    def metric(self, name: str) -> float:
        """Sum of a counter of `/metrics` over its labels."""
        lines = [line for line in self.get("/metrics").splitlines() if line.partition("{")[0].split(" ")[0] == name]
        assert lines, f"/metrics has no {name}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    argv: Sequence[str | Path], port: int, log: Path, *, env: Mapping[str, str] | None = None, wait_s: float = 60.0
) -> Iterator[Server]:
    """The server that `argv` starts on `port`, from the moment `/health` answers; SIGTERM at the end."""
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        while not _healthy(url):
            said = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"the server ended with {process.returncode}: {said}"
            assert time.monotonic() - began < wait_s, f"the server does not answer after {wait_s:.0f} s: {said}"
            time.sleep(0.1)
        yield Server(process, url, log, time.monotonic() - began)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes], wait_s: float = 60.0) -> None:
    """SIGTERM, and SIGKILL for all it started when that does not help. Nothing where it ended already."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
