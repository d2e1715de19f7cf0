"""Test processes of the cross-check: one fresh sandbox per patch and group of suites, everything they cost counted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uchide.patches.normalise import normalise
from uchide.protocols import Sandbox, SandboxProvider
from uchide.records import FileContent, PublicInstance, Suite, TestStatus
from uchide.selection.config import MatrixSettings
from uchide.testing.guard import make_guard
from uchide.testing.results import TestResult
from uchide.testing.runs import TestRun, run_ids
from uchide.testing.spec import instance_spec
from uchide.testing.worktree import apply_patch, content, lay_files, restore, snapshot

UNRESTORED = TestResult("crashed", phase="", message="a test spoilt the tree beyond repair")
Again = Callable[[dict[str, TestResult]], Iterable[str]]


@dataclass(frozen=True)
class Bench:
    """Where and how the tests of one instance run."""

    instance: PublicInstance
    tree: Path
    environment: Path
    python_home: Path
    sandboxes: SandboxProvider
    settings: MatrixSettings


@dataclass
class Cost:
    """Running totals: test processes, CPU seconds."""

    processes: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Limit:
    """Wall seconds for one test, and for all tests of a process."""

    per_test_s: float
    run_s: float


@dataclass(frozen=True)
class Group:
    """Suites whose files can lie in one tree at the same time."""

    suites: tuple[Suite, ...]

    @property
    def files(self) -> list[FileContent]:
        return list({file.path: file for suite in self.suites for file in suite.files}.values())


async def groups(sandbox: Sandbox, suites: Sequence[Suite]) -> list[Group]:
    """One group of all suites that only add files and agree about them; every other suite is a group of its own."""
    together: list[Suite] = []
    apart: list[Suite] = []
    laid: dict[str, FileContent] = {}
    for suite in suites:
        clashes = any(laid.get(file.path, file) != file for file in suite.files)
        if clashes or await changes_base(sandbox, suite):
            apart.append(suite)
        else:
            together.append(suite)
            laid.update((file.path, file) for file in suite.files)
    return ([Group(tuple(together))] if together else []) + [Group((suite,)) for suite in apart]


async def changes_base(sandbox: Sandbox, suite: Suite) -> bool:
    """Whether the suite changes or removes a file of the base tree."""
    for file in suite.files:
        try:
            present = await sandbox.read(f"/testbed/{file.path}")
        except FileNotFoundError:
            continue
        if file.data is None or present != content(file):
            return True
    return False


async def run_group(
    bench: Bench, cost: Cost, patch: str, group: Group, ids: Sequence[str], limit: Limit, again: Again = lambda _: ()
) -> list[dict[str, TestResult]]:
    """Results of these tests with `patch` (may be empty) and the group's files on the base tree, in a fresh sandbox.

    The tests that `again` names after the first run are repeated up to the configured number of runs, the tree put
    back in between. Raises SandboxError, and PatchError for a patch that does not apply.
    """
    spec = instance_spec(bench.instance, bench.tree, bench.environment, bench.python_home)
    runner = bench.instance.environment.runner
    results: list[dict[str, TestResult]] = []
    async with bench.sandboxes.open(spec) as sandbox:
        if patch:
            guard = make_guard(bench.instance, (file.path for file in group.files), ids)
            await apply_patch(sandbox, normalise(patch), guard)
        await lay_files(sandbox, group.files)
        await snapshot(sandbox)
        asked = list(ids)
        while asked and len(results) < bench.settings.runs:
            if results and not await restore(sandbox):
                results.append(dict.fromkeys(asked, UNRESTORED))
                break
            run = await run_ids(
                sandbox, runner, asked, timeout_s=limit.run_s, per_test_timeout_s=limit.per_test_s,
                start_timeout_s=max(60.0, limit.per_test_s),
            )  # fmt: skip
            cost.processes += 1
            asked = asked if results else list(again(reliable(run)))
            results.append(reliable(run))
        cost.cpu_s += await sandbox.cpu_seconds()
    return results


def reliable(run: TestRun) -> dict[str, TestResult]:
    """The results; in a run that did not come to its end nothing counts as passed."""
    if run.complete:
        return run.results
    status: TestStatus = "timeout" if run.timed_out else "crashed"
    lost = TestResult(status, phase="", message=run.console)
    return {test: lost if result.status == "passed" else result for test, result in run.results.items()}


def first_limit(settings: MatrixSettings) -> Limit:
    """Limits on the base tree, where durations are not known yet."""
    return Limit(settings.base_timeout_s, settings.max_run_s)


def next_limit(settings: MatrixSettings, base: Iterable[TestResult]) -> Limit:
    """Limits with a patch: a multiple of what the same tests took on the base tree."""
    durations = [result.duration_s for result in base]
    return Limit(
        per_test_s=max(settings.min_timeout_s, settings.timeout_factor * max(durations, default=0.0)),
        run_s=min(settings.max_run_s, max(settings.min_run_s, settings.timeout_factor * sum(durations))),
    )
