"""The cross-check matrix of an instance as the page shows it, and the tests that tell its patches apart."""

from dataclasses import dataclass

from uchide.records import Category, Matrix, SuiteEntry, TestStatus
from uchide.report.linked import Arm
from uchide.report.visible import one_line

TESTS_SHOWN, TIP_TESTS = 24, 12


@dataclass(frozen=True)
class CellView:
    """How one patch did on one suite: passed of all bug-revealing, and of all regression tests."""

    bug: tuple[int, int]
    regression: tuple[int, int]
    own: bool
    """The suite and the patch come from the same run."""
    tip: str


@dataclass(frozen=True)
class SuiteView:
    """One distinct suite; `label` is `S1`, `S2`, ... and empty when it was not admitted."""

    label: str
    runs: tuple[str, ...]
    reason: str
    tests: int
    dropped: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MatrixRow:
    """One patch in the matrix; `scores` are in the order of the selectors."""

    label: str
    picked: bool
    tied: bool
    verdict: Category
    cells: tuple[CellView | None, ...]
    scores: tuple[float | None, ...]
    note: str = ""


@dataclass(frozen=True)
class TellingTest:
    """A test on which the patches differ: its status per patch, in row order."""

    id: str
    suite: str
    kind: str
    statuses: tuple[TestStatus | None, ...]


@dataclass(frozen=True)
class MatrixView:
    """The cross-check matrix of an instance."""

    selectors: tuple[str, ...]
    suites: tuple[SuiteView, ...]
    rejected: tuple[SuiteView, ...]
    rows: tuple[MatrixRow, ...]
    telling: tuple[TellingTest, ...]
    telling_left_out: int
    dropped: int
    """Tests that admission dropped from admitted suites."""
    error: str


def is_tied(arm: Arm, selector: str, instance_id: str, sha: str) -> bool:
    tied = arm.picks[selector][instance_id].pick.tied
    return len(tied) > 1 and sha in tied


def view_matrix(arm: Arm, matrix: Matrix, labels: dict[str, str], headline: str | None) -> MatrixView:
    admitted = [suite for suite in matrix.suites if suite.admitted]
    names = {suite.suite_sha256: f"S{n}" for n, suite in enumerate(admitted, start=1)}
    patches = [patch for patch in matrix.patches if patch.patch_sha256 in labels]
    # A selector that does not score (first, shortest) has no column.
    scores = {name: rows[matrix.instance_id].pick.scores for name, rows in arm.picks.items()}
    scores = {name: found for name, found in scores.items() if found}
    rows = []
    for patch in patches:
        sha = patch.patch_sha256
        rows.append(
            MatrixRow(
                label=labels[sha],
                picked=headline is not None and arm.picks[headline][matrix.instance_id].pick.patch_sha256 == sha,
                tied=headline is not None and is_tied(arm, headline, matrix.instance_id, sha),
                verdict=arm.verdicts[patch.runs[0], matrix.instance_id].category,
                cells=tuple(view_cell(matrix, sha, patch.runs, suite) for suite in admitted),
                scores=tuple(found.get(sha) for found in scores.values()),
                note="" if patch.applies else "does not apply",
            )
        )
    telling = find_telling(matrix, [patch.patch_sha256 for patch in patches], admitted, names)
    return MatrixView(
        selectors=tuple(scores),
        suites=tuple(view_suite(suite, names[suite.suite_sha256]) for suite in admitted),
        rejected=tuple(view_suite(suite, "") for suite in matrix.suites if not suite.admitted),
        rows=tuple(rows),
        telling=tuple(telling[:TESTS_SHOWN]),
        telling_left_out=max(0, len(telling) - TESTS_SHOWN),
        dropped=sum(bool(test.dropped) for suite in admitted for test in suite.tests),
        error=one_line(matrix.error, 500),
    )


def view_suite(suite: SuiteEntry, label: str) -> SuiteView:
    return SuiteView(
        label=label,
        runs=suite.runs,
        reason=suite.reason,
        tests=sum(not test.dropped for test in suite.tests),
        dropped=tuple((test.id, test.dropped) for test in suite.tests if test.dropped)[:TESTS_SHOWN],
    )


def view_cell(matrix: Matrix, sha: str, patch_runs: tuple[str, ...], suite: SuiteEntry) -> CellView | None:
    outcomes = matrix.outcomes.get(sha, {}).get(suite.suite_sha256)
    if not outcomes:
        return None
    kinds = {test.id: test.kind for test in suite.tests if not test.dropped}
    bug = [outcomes[test] for test in outcomes if kinds.get(test) == "fail_to_pass"]
    regression = [outcomes[test] for test in outcomes if kinds.get(test) == "pass_to_pass"]
    ordered = sorted(outcomes.items(), key=lambda item: item[1] == "passed")
    tip = [f"{status}  {one_line(test, 120)}" for test, status in ordered[:TIP_TESTS]]
    if len(ordered) > TIP_TESTS:
        tip.append(f"and {len(ordered) - TIP_TESTS} more")
    return CellView(
        bug=(bug.count("passed"), len(bug)),
        regression=(regression.count("passed"), len(regression)),
        own=bool(set(patch_runs) & set(suite.runs)),
        tip="\n".join(tip),
    )


def find_telling(
    matrix: Matrix, shas: list[str], admitted: list[SuiteEntry], names: dict[str, str]
) -> list[TellingTest]:
    """The tests whose status is not the same for all patches, in suite order."""
    found = []
    for suite in admitted:
        for test in suite.tests:
            statuses = tuple(matrix.outcomes.get(sha, {}).get(suite.suite_sha256, {}).get(test.id) for sha in shas)
            if len({status for status in statuses if status}) > 1:
                found.append(TellingTest(test.id, names[suite.suite_sha256], test.kind, statuses))
    return found
