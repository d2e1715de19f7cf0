"""The benchmark of concurrency, small: that it still runs and measures something sensible."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks/concurrency.py"


@pytest.mark.sandbox
def test_the_benchmark_measures_rate_and_memory():
    argv = (sys.executable, BENCHMARK, "--rollouts", "3", "--steps", "4", "--latency", "0.5")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert ("pass:" if done.returncode == 0 else "FAIL:") in done.stdout
    share = re.search(r"3 rollouts, .* steps/s over \d+ s; ideal (\S+): (\S+)%", done.stdout)
    assert 4 < float(share[1]) < 6  # 3 / (0.5 s + a command)
    assert 30 < float(share[2]) <= 101
    used = re.search(
        r"memory: (\d+) MB this process, (\d+) MB (\d+) processes .* (\d+) MB files in them: (\d+) MB", done.stdout
    )
    own, sandboxes, processes, files, total = map(int, used.groups())
    assert own > 20
    assert sandboxes > 5
    assert processes >= 6  # bwrap and its guest, of each
    assert abs(own + sandboxes + files - total) <= 2
