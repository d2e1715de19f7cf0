"""Whether one process keeps 64 rollouts busy, and in how much memory.

The phases agent in real sandboxes, a command at each step, with the model `openai` and a server (a process of its own)
that answers after 2 s. Ideal are rollouts / (latency + median time of a command) steps per second. The rate is measured
from when the last rollout has made its first step, so that starting 64 sandboxes does not count, to when the first one
has made its last. Memory is the largest sum, sampled every few seconds, of the proportional set sizes of this process
and of all processes of its sandboxes, and the files in the sandboxes, which are memory too. The server's own does not
count. Fails below 95 % of the ideal, or from 600 MB on.

    python benchmarks/concurrency.py [--rollouts 64] [--steps 40] [--latency 2.0]
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from many.rollouts import Log, run

from uchide import llm
from uchide.sandboxes import provider

SHARE, MEMORY_MB = 0.95, 600.0
HERE = Path(__file__).resolve().parent


@contextmanager
def server(latency: float) -> Iterator[tuple[int, str]]:
    """Process id and address of a running server."""
    argv = (sys.executable, HERE / "many" / "server.py", str(latency))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.communicate()


async def measure(rollouts: int, steps: int, latency: float, folder: Path) -> Log:
    with server(latency) as (pid, url):
        model = llm.create({"name": "openai", "base_url": url, "model": "bench", "concurrency": rollouts})
        try:
            return await run(rollouts, steps, model, provider("bwrap"), folder, pid)
        finally:
            await model.aclose()


def report(log: Log, rollouts: int, latency: float) -> bool:
    """Print the numbers; whether they are good enough."""
    start, end = log.window()
    if end <= start:
        sys.exit("nothing to measure: the first rollout ended before the last one began; raise --steps")
    command, rate, used = log.command(), log.rate(), log.peak
    ideal = rollouts / (latency + command)
    total = (used.total + log.files_kb) / 1024
    print(
        f"{rollouts} rollouts, {rate:.2f} steps/s over {end - start:.0f} s; ideal {ideal:.2f}: {rate / ideal:.1%}\n"
        f"an answer takes {statistics.median(log.replies):.3f} s (the server {latency:g}), a command "
        f"{1000 * command:.1f} ms in its sandbox, medians\n"
        f"memory: {used.own / 1024:.0f} MB this process, {used.children / 1024:.0f} MB {used.processes} processes of "
        f"the sandboxes, {log.files_kb / 1024:.0f} MB files in them: {total:.0f} MB"
    )
    if used.estimated:
        print(f"        (the kernel hides the sizes of {used.estimated} processes: counted without shared file pages)")
    good = rate / ideal >= SHARE and total < MEMORY_MB
    print(f"{'pass' if good else 'FAIL'}: at least {SHARE:.0%} of the ideal, less than {MEMORY_MB:.0f} MB")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40, help="of each rollout")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds until the server answers")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = asyncio.run(measure(options.rollouts, options.steps, options.latency, Path(folder)))
    cpu = time.process_time() / (options.rollouts * options.steps)
    print(
        f"{time.monotonic() - started:.0f} s in all, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; this "
        f"process used {1000 * cpu:.1f} ms of CPU per step"
    )
    return 0 if report(log, options.rollouts, options.latency) else 1


if __name__ == "__main__":
    sys.exit(main())
