"""The agent's own test runs: which tests there are, and how each of them ends. No model has a say here."""

import json
import re
import secrets
from collections.abc import Iterable, Sequence

from uchide.agents.blueprint.keeping import make_usable
from uchide.agents.blueprint.state import PASSING, TodoTest
from uchide.agents.blueprint.work import Work
from uchide.errors import SandboxError
from uchide.patches.git import ROOT
from uchide.protocols import Command
from uchide.records import Runner
from uchide.testing import TestResult, run_ids
from uchide.testing.runs import runner_variable

_LIST_BYTES = 16_000_000
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
"""Addresses of objects differ from run to run, and tell nobody anything."""


async def collect(work: Work, files: Sequence[str]) -> list[str]:
    """Ids of the tests in these files, in order; none of a file that cannot be imported."""
    if not files:
        return []
    session = work.session
    runner = session.task.instance.environment.runner
    await make_usable(work)
    out = f"/tmp/uchide-{secrets.token_hex(8)}"
    argv = ("python", "-E", "-s", "/tools/run_tests.py", "--collect", "--out", out, "--", *files)
    timeout = min(work.spec.tests.seconds, session.seconds_left())
    await session.sandbox.run(
        Command(argv, cwd=ROOT, env={"UCHIDE_RUNNER": runner_variable(runner)}, timeout_s=timeout, output_limit=65_536)
    )
    try:
        lines = (await session.sandbox.read(out, limit=_LIST_BYTES)).split(b"\n")
    except FileNotFoundError:
        return []
    except SandboxError:
        if (await session.sandbox.run(Command(("true",), cwd="/", timeout_s=30))).returncode != 0:
            raise
        return []  # what cannot be read, in a sandbox that works, is a test's doing
    found = [_id(line) for line in lines]
    return [test for test in dict.fromkeys(found) if test]


def _id(line: bytes) -> str:
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    test = entry.get("id") if isinstance(entry, dict) and set(entry) == {"id"} else None
    return test if isinstance(test, str) and "\n" not in test else ""


async def each_alone(work: Work, ids: Iterable[str]) -> dict[str, TestResult]:
    """Every test in a process of its own."""
    return {test: await _alone(work, test) for test in ids}


async def together(work: Work, ids: Sequence[str]) -> dict[str, TestResult]:
    """All tests in one process, with a result for each."""
    session, tests = work.session, work.spec.tests
    await make_usable(work)
    run = await run_ids(
        session.sandbox,
        short_tracebacks(session.task.instance.environment.runner),
        ids,
        timeout_s=min(tests.seconds, session.seconds_left()),
        per_test_timeout_s=tests.per_test_s,
    )
    session.seconds_left()
    unknown = TestResult("not_found", phase="", message="the runner said nothing about this test")
    return {test: run.results.get(test, unknown) for test in ids}


async def regression(work: Work, ids: Sequence[str]) -> dict[str, TestResult]:
    """Every test judged on its own: those that do not pass in company run again in a process of their own, and that
    result counts."""
    found = await together(work, ids)
    return found | await each_alone(work, [test for test, result in found.items() if result.status not in PASSING])


def todo(results: dict[str, TestResult], repro: Iterable[str]) -> tuple[TodoTest, ...]:
    """Results as entries of the state's list."""
    own = set(repro)
    return tuple(
        TodoTest(
            id=test,
            kind="repro" if test in own else "regression",
            status=result.status,
            phase=result.phase,
            traceback="" if result.status in PASSING else _ADDRESS.sub("0x...", result.message),
        )
        for test, result in results.items()
    )


def short_tracebacks(runner: Runner) -> Runner:
    """The same runner, printing of a traceback one line per frame and its code: messages are kept short."""
    return runner.model_copy(update={"argv": (*runner.argv, "--tb=short")}) if runner.kind == "pytest" else runner


async def _alone(work: Work, test: str) -> TestResult:
    session, tests = work.session, work.spec.tests
    await make_usable(work)
    limit = min(tests.per_test_s + 120.0, session.seconds_left())
    run = await run_ids(
        session.sandbox,
        short_tracebacks(session.task.instance.environment.runner),
        [test],
        timeout_s=limit,
        per_test_timeout_s=tests.per_test_s,
    )
    session.seconds_left()
    return run.results.get(test) or next(iter(run.results.values()))
