"""Running tests in a sandbox: ids in, one status per id out, nothing ever read from the console."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from uchide.errors import SandboxError
from uchide.protocols import Command, ExecResult, Sandbox
from uchide.records import Runner, TestStatus
from uchide.testing.results import Parsed, TestResult, expand, parse

RUN_TESTS = ("run_tests.py", "_test_run.py", "_test_hooks.py")
"""Tools that `run_ids` needs in the sandbox."""
RESULTS_BYTES = 64_000_000


@dataclass(frozen=True)
class TestRun:
    """What one test process (and the workers it restarted) found.

    Every asked id has a result; a test that the runner said nothing about is `not_found`, or `timeout` when the run as
    a whole was over its limit (both with an empty phase). An asked class, file or parametrised test appears as the
    tests in it. `complete` is false when the runner did not come to its end; its results are then not to be relied on.
    """

    __test__ = False

    results: dict[str, TestResult]
    complete: bool
    timed_out: bool = False
    cpu_s: float = 0.0
    wall_s: float = 0.0
    console: str = ""
    """Tail of the output, for people."""

    @property
    def statuses(self) -> dict[str, TestStatus]:
        return {test: result.status for test, result in self.results.items()}

    @property
    def messages(self) -> dict[str, str]:
        return {test: result.message for test, result in self.results.items() if result.message}

    @property
    def seconds(self) -> float:
        """Duration of all tests together, as the runner measured it."""
        return sum(result.duration_s for result in self.results.values())


async def run_ids(
    sandbox: Sandbox,
    runner: Runner,
    ids: Sequence[str],
    *,
    timeout_s: float,
    per_test_timeout_s: float,
    start_timeout_s: float = 120.0,
) -> TestRun:
    """Run exactly these tests in one process; needs the tools `RUN_TESTS` in the sandbox.

    Wall seconds: `per_test_timeout_s` bounds each test, `start_timeout_s` importing one file, `timeout_s` everything.
    Raises SandboxError when the sandbox died.
    """
    if not ids:
        return TestRun({}, complete=True)
    folder = f"/tmp/uchide-{secrets.token_hex(8)}"
    await sandbox.write(f"{folder}/ids", "".join(f"{test}\n" for test in ids).encode("utf-8", "surrogateescape"))
    ended = await sandbox.run(_command(runner, folder, timeout_s, (per_test_timeout_s, start_timeout_s)))
    parsed = await _read(sandbox, f"{folder}/results", ids)
    timed_out = ended.killed == "timeout"
    return TestRun(
        results=_fill(ids, parsed.results, "timeout" if timed_out else "not_found"),
        complete=parsed.complete and ended.returncode is not None,
        timed_out=timed_out,
        cpu_s=ended.cpu_s,
        wall_s=ended.wall_s,
        console=_tail(ended),
    )


def runner_variable(runner: Runner) -> str:
    """The value of `$UCHIDE_RUNNER`."""
    return json.dumps({"runner": runner.kind, "argv": list(runner.argv)})


def _command(runner: Runner, folder: str, timeout_s: float, limits: tuple[float, float]) -> Command:
    # -E -s: the driver must not import from the repository, whose code is on PYTHONPATH.
    argv = ("python", "-E", "-s", "/tools/run_tests.py", "--ids-file", f"{folder}/ids", "--out", f"{folder}/results")
    options = ("--per-test-timeout", f"{limits[0]:g}", "--start-timeout", f"{limits[1]:g}")
    return Command(
        argv + options, env={"UCHIDE_RUNNER": runner_variable(runner)}, timeout_s=timeout_s, output_limit=65_536
    )


async def _read(sandbox: Sandbox, path: str, ids: Sequence[str]) -> Parsed:
    try:
        return parse(await sandbox.read(path, limit=RESULTS_BYTES), ids)
    except FileNotFoundError:
        return Parsed({}, complete=False)
    except SandboxError:
        alive = await sandbox.run(Command(("true",), cwd="/", timeout_s=30))
        if alive.returncode != 0:
            raise
        return Parsed({}, complete=False)  # a results file that cannot be read, in a sandbox that works: a test's doing


def _fill(ids: Sequence[str], found: dict[str, TestResult], missing: TestStatus) -> dict[str, TestResult]:
    unknown = TestResult(missing, phase="", message="the runner said nothing about this test")
    return {one: found.get(one, unknown) for tests in expand(ids, found).values() for one in tests}


def _tail(ended: ExecResult) -> str:
    return ended.output[-4000:].decode("utf-8", "replace")
