"""Which suites, and which of their tests, may vote: pure decisions on what the harness saw.

A bug-revealing test must fail on the base tree, in its own call, and pass with the patch of its own run; a regression
test must pass on both; every time. A suite is admitted only while it keeps both kinds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from uchide.errors import PatchError
from uchide.patches.paths import is_test_path
from uchide.records import Suite, SuiteEntry, TestEntry
from uchide.testing.paths import is_test_configuration, is_test_file
from uchide.testing.results import TestResult, expand
from uchide.testing.worktree import check_path

Kind = Literal["fail_to_pass", "pass_to_pass"]
Observed = Mapping[str, Sequence[TestResult]]
"""Per test what each run gave, in order."""


@dataclass(frozen=True)
class Trial:
    """A test of a suite on its way to being admitted."""

    id: str
    kind: Kind
    base: tuple[TestResult, ...] = ()
    own_patch: tuple[TestResult, ...] = ()
    dropped: str = ""

    def entry(self) -> TestEntry:
        """The row of the matrix."""
        return TestEntry(
            id=self.id,
            kind=self.kind,
            base=tuple(result.status for result in self.base),
            own_patch=tuple(result.status for result in self.own_patch),
            dropped=self.dropped,
        )


def fault(suite: Suite) -> str:
    """Why the suite cannot be run at all, from its files and lists alone; empty when it can."""
    if not suite.fail_to_pass:
        return "it has no bug-revealing test"
    if not suite.pass_to_pass:
        return "it has no regression test"
    for file in suite.files:
        try:
            check_path(file.path)
        except PatchError as error:
            return str(error)
        if is_test_configuration(file.path):
            return f"it changes {file.path}, which decides how all tests run"
        if not (is_test_path(file.path) or is_test_file(file.path)):
            return f"it changes {file.path}, which is not a test file"
    return ""


def trials(suite: Suite) -> list[Trial]:
    """The tests of a suite as asked for; ids that no file of ids can hold are dropped at once."""
    found = []
    for kind, ids in (("fail_to_pass", suite.fail_to_pass), ("pass_to_pass", suite.pass_to_pass)):
        for test in dict.fromkeys(ids):
            dropped = "" if is_id(test) else "not a test id"
            found.append(Trial(test, "fail_to_pass" if kind == "fail_to_pass" else "pass_to_pass", dropped=dropped))
    return found


def is_id(test: str) -> bool:
    """Whether a line of an ids file can hold it."""
    return bool(test.strip()) and test == test.strip("\r") and "\n" not in test and "\0" not in test


def on_base(tests: Iterable[Trial], observed: Observed) -> list[Trial]:
    """The tests with what they did on the base tree; an asked class or file is replaced by the tests in it."""
    judged: dict[tuple[str, Kind], Trial] = {}
    for trial in tests:
        if trial.dropped:
            judged.setdefault((trial.id, trial.kind), trial)
            continue
        for one in expand([trial.id], observed)[trial.id]:
            results = tuple(observed.get(one, ()))
            why = bug_fault(results) if trial.kind == "fail_to_pass" else pass_fault(results)
            why = f"on the base tree: {why}" if why else ""
            judged.setdefault((one, trial.kind), replace(trial, id=one, base=results, dropped=why))
    return list(judged.values())


def on_own_patch(tests: Iterable[Trial], observed: Observed) -> list[Trial]:
    """The tests with what they did with the patch of their own run."""
    judged = []
    for trial in tests:
        results = () if trial.dropped else tuple(observed.get(trial.id, ()))
        why = "" if trial.dropped else pass_fault(results)
        dropped = trial.dropped or (f"with its own patch: {why}" if why else "")
        judged.append(replace(trial, own_patch=results, dropped=dropped))
    return judged


def bug_fault(results: Sequence[TestResult]) -> str:
    """Why these results on the base tree do not reveal a bug; empty when they do, every time."""
    if not results:
        return "not run"
    for result in results:
        if result.status not in ("failed", "error"):
            return _statuses(results)
        if result.phase != "call":
            return f"{result.status} in {result.phase}, before the test itself ran"
    return ""


def pass_fault(results: Sequence[TestResult]) -> str:
    """Why these results are not passes, every time; empty when they are."""
    if not results:
        return "not run"
    return "" if all(result.status == "passed" for result in results) else _statuses(results)


def missing_kind(tests: Iterable[Trial]) -> str:
    """Why a suite with these tests is not admitted; empty when both kinds are left."""
    left = {trial.kind for trial in tests if not trial.dropped}
    if "fail_to_pass" not in left:
        return "no bug-revealing test is left"
    return "" if "pass_to_pass" in left else "no regression test is left"


def suite_entry(suite: Suite, runs: Sequence[str], tests: Sequence[Trial], reason: str = "") -> SuiteEntry:
    """The row of the matrix; admitted unless there is a reason against it."""
    why = reason or missing_kind(tests)
    return SuiteEntry(
        suite_sha256=suite.sha256,
        runs=tuple(runs),
        admitted=not why,
        reason=why,
        tests=tuple(trial.entry() for trial in tests),
    )


def _statuses(results: Sequence[TestResult]) -> str:
    seen = [result.status for result in results]
    unstable = len({(result.status, result.phase) for result in results}) > 1
    return ("unstable, " if unstable else "") + ", ".join(dict.fromkeys(seen) if not unstable else seen)
