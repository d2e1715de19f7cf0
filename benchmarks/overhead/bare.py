"""The executor that both agents use: one plain subprocess, timed. Standard library only; no isolation at all."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass
class Bare:
    """Runs commands and keeps the wall seconds spent in them."""

    seconds: float = 0.0

    def run(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes = b"", timeout_s: float = 600.0
    ) -> tuple[int, bytes]:
        """(return code, standard output and error together)."""
        start = time.perf_counter()
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=dict(env),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
        self.seconds += time.perf_counter() - start
        return done.returncode, done.stdout


@dataclass
class Clock:
    """Called by the model at the beginning of each request: `marks[n]` is (wall, seconds in commands) before step n."""

    bare: Bare
    marks: list[tuple[float, float]]

    def tick(self) -> None:
        self.marks.append((time.perf_counter(), self.bare.seconds))

    def steps(self) -> list[float]:
        """Seconds of each step without its command."""
        pairs = zip(self.marks, self.marks[1:], strict=False)
        return [(end[0] - start[0]) - (end[1] - start[1]) for start, end in pairs]


def command(step: int) -> str:
    """Prints 8 KiB of text that does not compress well, different at each step."""
    return f"head -c 6063 /dev/urandom | base64 # step {step}"
