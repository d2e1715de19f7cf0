"""Selectors: pure functions from a matrix to a pick. The published rule is `cross_agent`.

All of them choose among the distinct patches that are not empty and apply. Equal scores are told apart by the shortest
raw patch in characters, then by the lowest run.
"""

from collections.abc import Callable, Sequence

from uchide.records import Candidate, Matrix, PatchEntry, Pick, SuiteEntry
from uchide.selection.config import SelectionConfig

ROUNDING = 1e-12
Selector = Callable[[Matrix, Sequence[str], SelectionConfig], Pick]
"""From the matrix, the run labels in run order, and the configuration."""


def pick(matrix: Matrix, candidates: Sequence[Candidate], config: SelectionConfig) -> list[Pick]:
    """One pick per configured selector. `candidates`, in run order, are those the matrix was built from."""
    runs = [candidate.run for candidate in candidates]
    return [BY_NAME[name](matrix, runs, config) for name in config.selectors]


def cross_agent(matrix: Matrix, runs: Sequence[str], config: SelectionConfig) -> Pick:
    """The patch that does best on the admitted suites of all runs."""
    suites = admitted(matrix)
    scores = {patch.patch_sha256: score(matrix, patch, suites, config, runs) for patch in pool(matrix)}
    return _scored("cross_agent", matrix, runs, config, scores if suites else {})


def self_tests(matrix: Matrix, runs: Sequence[str], config: SelectionConfig) -> Pick:
    """The patch that does best on the admitted suites of the runs that made it; those without one score 0."""
    scores = {}
    own_suites = 0
    for patch in pool(matrix):
        own = [suite for suite in admitted(matrix) if set(suite.runs) & set(patch.runs)]
        own_suites += len(own)
        scores[patch.patch_sha256] = score(matrix, patch, own, config, patch.runs)
    return _scored("self_tests", matrix, runs, config, scores if own_suites else {})


def first(matrix: Matrix, runs: Sequence[str], config: SelectionConfig) -> Pick:
    """The patch of the earliest run that has one."""
    chosen = min(pool(matrix), key=lambda patch: run_index(patch, runs), default=None)
    return _pick("first", matrix, runs, chosen, reason="first patch in run order")


def shortest(matrix: Matrix, runs: Sequence[str], config: SelectionConfig) -> Pick:
    """The shortest raw patch in characters."""
    chosen = min(pool(matrix), key=lambda patch: (patch.chars, run_index(patch, runs)), default=None)
    return _pick("shortest", matrix, runs, chosen, reason="shortest patch")


BY_NAME: dict[str, Selector] = {
    "cross_agent": cross_agent,
    "first": first,
    "shortest": shortest,
    "self_tests": self_tests,
}


def pool(matrix: Matrix) -> list[PatchEntry]:
    """The patches that may be picked."""
    return [patch for patch in matrix.patches if patch.applies]


def admitted(matrix: Matrix) -> list[SuiteEntry]:
    """The suites that count; none in a matrix that an infrastructure failure left incomplete."""
    return [] if matrix.error else [suite for suite in matrix.suites if suite.admitted]


def score(
    matrix: Matrix, patch: PatchEntry, suites: Sequence[SuiteEntry], config: SelectionConfig, voters: Sequence[str]
) -> float:
    """Mean over the suites of the runs `voters` of bug * B + regression * R, where B (R) is 1 if all such tests pass.

    Every run has a suite of its own: one that several runs archived alike counts once for each. 0 without suites.
    """
    total, votes = 0.0, 0
    for suite in suites:
        outcomes = matrix.outcomes[patch.patch_sha256][suite.suite_sha256]
        count = len(set(suite.runs) & set(voters))
        for kind, weight in (("fail_to_pass", config.weights.bug), ("pass_to_pass", config.weights.regression)):
            tests = [test.id for test in suite.tests if not test.dropped and test.kind == kind]
            total += count * weight * all(outcomes.get(test) == "passed" for test in tests)
        votes += count
    return total / votes if votes else 0.0


def run_index(patch: PatchEntry, runs: Sequence[str]) -> int:
    """Place in the run order of the earliest run that made the patch."""
    return min(runs.index(run) for run in patch.runs)


def _scored(name: str, matrix: Matrix, runs: Sequence[str], config: SelectionConfig, scores: dict[str, float]) -> Pick:
    patches = pool(matrix)
    if patches and not scores:
        why = f"matrix incomplete: {matrix.error}" if matrix.error else "no admitted suite"
        if config.no_suite == "abstain":
            return _pick(name, matrix, runs, None, reason=why)
        chosen = min(patches, key=lambda patch: run_index(patch, runs))
        return _pick(name, matrix, runs, chosen, reason=f"{why}: first patch in run order")
    threshold = max(scores.values(), default=0.0) - config.tie_margin - ROUNDING
    tied = [patch for patch in patches if scores[patch.patch_sha256] >= threshold]
    chosen_one = min(tied, key=lambda patch: (patch.chars, run_index(patch, runs)), default=None)
    reason = "best score" if len(tied) < 2 else f"shortest of {len(tied)} tied patches"
    return _pick(name, matrix, runs, chosen_one, scores=scores, tied=tied, reason=reason)


def _pick(
    name: str, matrix: Matrix, runs: Sequence[str], chosen: PatchEntry | None, *,
    scores: dict[str, float] | None = None, tied: Sequence[PatchEntry] = (), reason: str,
) -> Pick:  # fmt: skip
    return Pick(
        instance_id=matrix.instance_id,
        arm=matrix.arm,
        selector=name,
        run=min(chosen.runs, key=runs.index) if chosen else None,
        patch_sha256=chosen.patch_sha256 if chosen else None,
        scores=scores or {},
        tied=tuple(patch.patch_sha256 for patch in tied),
        reason=reason if chosen or pool(matrix) else "no patch to pick",
    )
