"""The cross-check matrix of an instance: every distinct patch against every admitted suite, test by test.

Per distinct patch one process runs the tests of all suites; the tests of its own suites run again, alone, until they
have run as often as admission asks. Suites that change existing files, or disagree about a new one, run apart.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uchide.errors import PatchError, SandboxError
from uchide.patches.normalise import normalise
from uchide.protocols import SandboxProvider
from uchide.records import Candidate, Matrix, PatchEntry, PublicInstance, Suite, SuiteEntry, TestStatus
from uchide.selection.admission import Trial, fault, missing_kind, on_base, on_own_patch, suite_entry, trials
from uchide.selection.config import MatrixSettings
from uchide.selection.crosscheck import Bench, Cost, Group, first_limit, groups, next_limit, run_group
from uchide.testing.results import TestResult
from uchide.testing.spec import instance_spec
from uchide.testing.worktree import stage_patch

Outcomes = dict[str, dict[str, dict[str, TestStatus]]]


@dataclass
class Board:
    """What is known so far, by content hash: patches and suites with the runs behind them, in run order."""

    patches: dict[str, str] = field(default_factory=dict)
    patch_runs: dict[str, list[str]] = field(default_factory=dict)
    applies: dict[str, bool] = field(default_factory=dict)
    suites: dict[str, Suite] = field(default_factory=dict)
    suite_runs: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    trials: dict[str, list[Trial]] = field(default_factory=dict)
    """Tests of each suite after the base tree."""
    own: dict[str, dict[str, list[Trial]]] = field(default_factory=dict)
    """suite -> own patch -> its tests after that patch."""
    outcomes: Outcomes = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    def own_patches(self, suite: str) -> list[str]:
        """Applying patches of the runs that archived the suite."""
        runs = set(self.suite_runs[suite])
        return [sha for sha, makers in self.patch_runs.items() if self.applies.get(sha) and runs & set(makers)]


async def build(
    instance: PublicInstance,
    arm: str,
    candidates: Sequence[Candidate],
    tree: Path,
    environment: Path,
    python_home: Path,
    sandboxes: SandboxProvider,
    settings: MatrixSettings | None = None,
) -> Matrix:
    """The matrix of these candidates, given in run order. A sandbox that fails again and again leaves `error` set."""
    bench = Bench(instance, tree, environment, python_home, sandboxes, settings or MatrixSettings())
    began, problem, spent = time.monotonic(), "", 0.0
    for _ in range(bench.settings.retries + 1):
        board = collect(candidates)
        try:
            await _fill(bench, board)
        except SandboxError as error:
            problem, spent = str(error), spent + board.cost.cpu_s
            continue
        return _matrix(instance, arm, board, spent, began)
    return _matrix(instance, arm, collect(candidates), spent, began, problem)


def collect(candidates: Iterable[Candidate]) -> Board:
    """The distinct non-empty patches and the distinct suites of the candidates."""
    board = Board()
    for candidate in candidates:
        if candidate.patch.strip():
            board.patches.setdefault(candidate.patch_sha256, candidate.patch)
            board.patch_runs.setdefault(candidate.patch_sha256, []).append(candidate.run)
        sha = candidate.suite.sha256
        board.suites.setdefault(sha, candidate.suite)
        board.suite_runs.setdefault(sha, []).append(candidate.run)
    return board


async def _fill(bench: Bench, board: Board) -> None:
    parts = await _survey(bench, board)
    for part in parts:
        for group, base in await _base_runs(bench, board, part):
            left = Group(tuple(suite for suite in group.suites if not board.refused.get(suite.sha256)))
            for patch in [sha for sha, applies in board.applies.items() if applies] if left.suites else []:
                await _patch_runs(bench, board, patch, left, base)


async def _survey(bench: Bench, board: Board) -> list[Group]:
    """Which patches apply, which suites can be run at all, and which of them together."""
    spec = instance_spec(bench.instance, bench.tree, bench.environment, bench.python_home)
    async with bench.sandboxes.open(spec) as sandbox:
        for sha, patch in board.patches.items():
            try:
                await stage_patch(sandbox, normalise(patch))
                board.applies[sha] = True
            except PatchError:
                board.applies[sha] = False
        for sha, suite in board.suites.items():
            no_patch = "" if board.own_patches(sha) else "its run made no patch that applies"
            board.refused[sha] = fault(suite) or no_patch
            board.trials[sha] = trials(suite)
        fit = [suite for sha, suite in board.suites.items() if not board.refused[sha]]
        found = await groups(sandbox, fit)
        board.cost.cpu_s += await sandbox.cpu_seconds()
    return found


async def _base_runs(bench: Bench, board: Board, group: Group) -> list[tuple[Group, list[TestResult]]]:
    """Run the group's suites on the base tree; suites that spoil the process for each other are run one by one."""
    shas = [suite.sha256 for suite in group.suites]
    ids = _ids(trial for sha in shas for trial in board.trials[sha])

    def again(found: dict[str, TestResult]) -> list[str]:
        once = {test: [result] for test, result in found.items()}
        return _ids(trial for sha in shas for trial in on_base(board.trials[sha], once))

    runs = await run_group(bench, board.cost, "", group, ids, first_limit(bench.settings), again)
    if len(shas) > 1 and runs and any(result.status == "crashed" for result in runs[0].values()):
        return [part for suite in group.suites for part in await _base_runs(bench, board, Group((suite,)))]
    observed = _merge(runs)
    for sha in shas:
        board.trials[sha] = on_base(board.trials[sha], observed)
        board.refused[sha] = missing_kind(board.trials[sha])
    return [(group, [result for results in observed.values() for result in results])]


async def _patch_runs(bench: Bench, board: Board, patch: str, group: Group, base: list[TestResult]) -> None:
    """Run the group's suites with one patch: all of them once, the patch's own as often as admission asks."""
    shas = [suite.sha256 for suite in group.suites]
    own = [sha for sha in shas if patch in board.own_patches(sha)]
    own_ids = set(_ids(trial for sha in own for trial in board.trials[sha]))
    ids = _ids(trial for sha in shas for trial in board.trials[sha])

    def again(found: dict[str, TestResult]) -> list[str]:
        return [test for test in ids if test in own_ids and status_of(test, found) == "passed"]

    limit = next_limit(bench.settings, base)
    runs = await run_group(bench, board.cost, board.patches[patch], group, ids, limit, again)
    first, observed = runs[0], _merge(runs)
    for sha in own:
        board.own.setdefault(sha, {})[patch] = on_own_patch(board.trials[sha], observed)
    for sha in shas:
        row = board.outcomes.setdefault(patch, {})
        row[sha] = {trial.id: status_of(trial.id, first) for trial in board.trials[sha] if not trial.dropped}


def status_of(test: str, found: Mapping[str, TestResult]) -> TestStatus:
    """A test may be gone with a patch: turned into several, each with a parameter."""
    return found[test].status if test in found else "not_found"


def _suite_entry(board: Board, sha: str) -> SuiteEntry:
    """With several own patches the one that keeps most tests bears witness, the earliest of equals."""
    suite, runs = board.suites[sha], board.suite_runs[sha]
    witnesses = board.own.get(sha)
    if not witnesses:
        return suite_entry(suite, runs, board.trials.get(sha, []), board.refused.get(sha) or "not run")
    best = max(witnesses.values(), key=lambda tests: sum(not trial.dropped for trial in tests))
    return suite_entry(suite, runs, best)


def _matrix(instance: PublicInstance, arm: str, board: Board, spent: float, began: float, problem: str = "") -> Matrix:
    suites = tuple(_suite_entry(board, sha) for sha in board.suites)
    kept = {
        suite.suite_sha256: {test.id for test in suite.tests if not test.dropped} for suite in suites if suite.admitted
    }
    outcomes = {
        patch: {
            sha: {test: status for test, status in board.outcomes.get(patch, {}).get(sha, {}).items() if test in ids}
            for sha, ids in kept.items()
        }
        for patch, applies in board.applies.items()
        if applies
    }
    patches = tuple(
        PatchEntry(
            patch_sha256=sha,
            runs=tuple(board.patch_runs[sha]),
            chars=len(patch),
            applies=board.applies.get(sha, bool(problem)),
        )
        for sha, patch in board.patches.items()
    )
    return Matrix(
        instance_id=instance.instance_id,
        arm=arm,
        patches=patches,
        suites=suites,
        outcomes=outcomes,
        error=problem,
        processes=board.cost.processes,
        cpu_seconds=spent + board.cost.cpu_s,
        wall_seconds=time.monotonic() - began,
    )


def _ids(tests: Iterable[Trial]) -> list[str]:
    return list(dict.fromkeys(trial.id for trial in tests if not trial.dropped))


def _merge(runs: Sequence[dict[str, TestResult]]) -> dict[str, list[TestResult]]:
    merged: dict[str, list[TestResult]] = {}
    for run in runs:
        for test, result in run.items():
            merged.setdefault(test, []).append(result)
    return merged
