"""What an agent runtime costs per step beside the command itself: ours and mini-swe-agent 2.4.6.

A scripted rollout of 1000 steps with observations of 8 KiB. Both sides run their commands by the same bare subprocess
(overhead/bare.py), whose time is subtracted; both save the trajectory at every step as they do by default. Ours is run
three times and each step counts with its fastest run, the peer once. Fails unless our cost is flat (step 1000 within
1.3 times of step 100) and at least ten times below the peer's, at step 1000 and in the mean.

    python benchmarks/agent_overhead.py [--peer-python PYTHON] [--steps 1000]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from overhead import ours

from uchide.errors import SandboxUnavailable
from uchide.sandboxes import provider

PEER = "mini-swe-agent==2.4.6"
FLAT, RATIO = 1.3, 10.0
HERE = Path(__file__).resolve().parent
WINDOW = 50
REPEATS = 3


def peer_python() -> Path:
    """Interpreter of the peer's own environment, made on first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uchide" / "bench"
    folder = cache / PEER.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {PEER} into {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run((python, "-m", "pip", "install", "-q", PEER), check=True)
        (folder / "ready").touch()
    return python


def run_peer(python: Path, steps: int) -> list[float]:
    """Seconds of each step of the peer."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": folder}
        argv = (python, HERE / "overhead" / "peer.py", str(steps), folder)
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True)
    result: list[float] = json.loads(done.stdout.splitlines()[-1])
    return result


def run_ours(steps: int, sandbox: str | None = None) -> tuple[list[float], float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(ours.run(steps, Path(folder), provider(sandbox) if sandbox else None))


def at(seconds: list[float], step: int) -> float:
    """Median milliseconds of the last steps up to `step`."""
    return 1000 * statistics.median(seconds[max(0, step - WINDOW) : step])


def mean(seconds: list[float], steps: int) -> float:
    """Mean milliseconds over the first `steps`."""
    return 1000 * statistics.fmean(seconds[:steps])


def show(name: str, seconds: list[float], steps: int) -> None:
    early = min(100, steps)
    print(
        f"{name:<22} at step {early}: {at(seconds, early):8.3f}   at step {steps}: {at(seconds, steps):8.3f}   "
        f"mean of {early}: {mean(seconds, early):8.3f}   mean of {steps}: {mean(seconds, steps):8.3f}   ms/step",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--peer-python", type=Path, help=f"interpreter that has {PEER}")
    options = parser.parse_args()
    steps: int = options.steps
    own = [min(step) for step in zip(*(run_ours(steps)[0] for _ in range(REPEATS)), strict=True)]
    show("uchide", own, steps)
    try:
        boxed, command = run_ours(steps, "bwrap")
        show("uchide, bwrap", boxed, steps)
        print(f"{'':<22} a command of 8 KiB output takes {1000 * command:.3f} ms in the sandbox")
    except SandboxUnavailable as error:
        print(f"uchide, bwrap: not measured: {error}")
    peer = run_peer(options.peer_python or peer_python(), steps)
    show(PEER, peer, steps)
    flat = at(own, steps) / at(own, min(100, steps))
    ratio = min(mean(peer, steps) / mean(own, steps), at(peer, steps) / at(own, steps))
    good = flat <= FLAT and ratio >= RATIO
    verdict = "pass" if good else "FAIL"
    print(
        f"{verdict}: {flat:.2f}x from step 100 to {steps} (max. {FLAT}), {ratio:.0f}x below the peer (min. {RATIO:.0f})"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
