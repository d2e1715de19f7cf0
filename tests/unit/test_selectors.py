"""Selectors against a reference written from the published rule, and what may not change a pick."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from uchide.errors import ConfigError
from uchide.records import Candidate, Matrix, PatchEntry, Suite, SuiteEntry, TestEntry, Usage
from uchide.selection import SELECTORS, SelectionConfig, Weights, pick

STATUSES = ("passed", "failed", "timeout", "skipped")


def candidate(run: str, sha: str) -> Candidate:
    return Candidate(
        candidate_id=f"main.{run}.i", arm="main", run=run, seed=1, instance_id="i", exit_status="completed", patch=sha,
        patch_sha256=sha, suite=Suite(instance_id="i"), suite_sha256="", turns=1, usage=Usage(), trajectory="",
        trajectory_sha256="",
    )  # fmt: skip


@st.composite
def worlds(draw) -> tuple[Matrix, list[Candidate]]:
    """A matrix of up to five runs, each with a patch (some the same) or none, and up to four suites."""
    makers = draw(st.lists(st.sampled_from(["", "p0", "p1", "p2", "p3"]), min_size=1, max_size=5))
    runs = [f"r{n:02}" for n in range(1, len(makers) + 1)]
    shas = list(dict.fromkeys(sha for sha in makers if sha))
    patches = [
        PatchEntry(
            patch_sha256=sha,
            runs=tuple(run for run, made in zip(runs, makers, strict=True) if made == sha),
            chars=draw(st.integers(1, 4)),
            applies=draw(st.sampled_from([True, True, True, False])),
        )
        for sha in shas
    ]
    suites = []
    for n in range(draw(st.integers(0, 4))):
        tests = [TestEntry(id="b0", kind="fail_to_pass", base=(), own_patch=())]
        tests += [
            TestEntry(id=f"r{m}", kind="pass_to_pass", base=(), own_patch=()) for m in range(draw(st.integers(1, 2)))
        ]
        tests.append(TestEntry(id="x", kind="pass_to_pass", base=(), own_patch=(), dropped="flaky"))
        archived = draw(st.sets(st.sampled_from(runs), min_size=1, max_size=3))
        suites.append(
            SuiteEntry(
                suite_sha256=f"s{n}",
                runs=tuple(sorted(archived)),
                admitted=draw(st.booleans()),
                tests=tuple(tests),
            )
        )
    outcomes = {
        patch.patch_sha256: {
            suite.suite_sha256: {test.id: draw(st.sampled_from(STATUSES)) for test in suite.tests if not test.dropped}
            for suite in suites
            if suite.admitted
        }
        for patch in patches
        if patch.applies
    }
    matrix = Matrix(instance_id="i", arm="main", patches=tuple(patches), suites=tuple(suites), outcomes=outcomes)
    return matrix, [candidate(run, sha) for run, sha in zip(runs, makers, strict=True)]


def choose(matrix, candidates, name="cross_agent", **options):
    (found,) = pick(matrix, candidates, SelectionConfig(selectors=(name,), **options))
    return found


def reference(matrix: Matrix, candidates: list[Candidate], own: bool) -> str | None:
    """The rule spelled out run by run: every run proposes its patch, the best proposal wins; none without suites."""
    used = {s.suite_sha256: s for s in matrix.suites if s.admitted}
    proposals = []
    any_suite = False
    for index, made in enumerate(candidates):
        entry = next((p for p in matrix.patches if p.patch_sha256 == made.patch), None)
        if entry is None or not entry.applies:
            continue
        parts = []
        for sha, row in matrix.outcomes[made.patch].items():
            votes = [run for run in used[sha].runs if not own or run in entry.runs]
            bug = 1 if row["b0"] == "passed" else 0
            regression = (
                1 if [status for test, status in row.items() if test != "b0" and status != "passed"] == [] else 0
            )
            parts += [3 * bug + 7 * regression] * len(votes)
        any_suite = any_suite or parts != []
        proposals.append((sum(parts) / len(parts) if parts else 0, entry.chars, index))
    if not proposals or not any_suite:
        return None
    best = max(score for score, _, _ in proposals)
    _, _, index = min((chars, index, index) for score, chars, index in proposals if score > best - 0.0099)
    return candidates[index].run


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_scoring_selectors_follow_the_published_rule(world):
    matrix, candidates = world
    for name, own in (("cross_agent", False), ("self_tests", True)):
        assert choose(matrix, candidates, name, no_suite="abstain").run == reference(matrix, candidates, own)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_first_and_shortest(world):
    matrix, candidates = world
    entries = {entry.patch_sha256: entry for entry in matrix.patches if entry.applies}
    having = [made for made in candidates if made.patch in entries]
    assert choose(matrix, candidates, "first").run == (having[0].run if having else None)
    lengths = [(entries[made.patch].chars, n) for n, made in enumerate(having)]
    assert choose(matrix, candidates, "shortest").run == (having[min(lengths)[1]].run if having else None)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.randoms())
def test_run_order_matters_only_between_patches_of_one_length_and_score(world, random):
    matrix, candidates = world
    before = choose(matrix, candidates)
    shuffled = list(candidates)
    random.shuffle(shuffled)
    mixed = matrix.model_copy(update={"patches": tuple(reversed(matrix.patches)), "suites": matrix.suites[::-1]})
    after = choose(mixed, shuffled)
    assert after.scores == pytest.approx(before.scores)
    assert set(after.tied) == set(before.tied)
    if before.tied:
        chars = {entry.patch_sha256: entry.chars for entry in matrix.patches}
        assert chars[after.patch_sha256] == chars[before.patch_sha256] == min(chars[sha] for sha in before.tied)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_one_more_run_with_a_known_patch_changes_no_patch_that_is_picked(world):
    matrix, candidates = world
    if not matrix.patches:
        return
    again = matrix.patches[0].model_copy(update={"runs": (*matrix.patches[0].runs, "r99")})
    grown = matrix.model_copy(update={"patches": (again, *matrix.patches[1:])})
    before, after = choose(matrix, candidates), choose(grown, [*candidates, candidate("r99", again.patch_sha256)])
    assert (after.patch_sha256, after.run, after.scores) == (before.patch_sha256, before.run, before.scores)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(["passed", "failed"]))
def test_a_suite_that_says_the_same_of_all_patches_changes_no_pick(world, status):
    matrix, candidates = world
    useless = SuiteEntry(
        suite_sha256="u", runs=("r01",), admitted=True, tests=(
            TestEntry(id="b", kind="fail_to_pass", base=(), own_patch=()),
            TestEntry(id="r", kind="pass_to_pass", base=(), own_patch=()),
        ),
    )  # fmt: skip
    outcomes = {patch: {**row, "u": {"b": status, "r": status}} for patch, row in matrix.outcomes.items()}
    grown = matrix.model_copy(update={"suites": (*matrix.suites, useless), "outcomes": outcomes})
    before, after = choose(matrix, candidates, no_suite="abstain"), choose(grown, candidates, no_suite="abstain")
    if before.run is not None:
        assert after.patch_sha256 == before.patch_sha256


def small(scores: dict[str, tuple[str, str]], chars: dict[str, int]) -> Matrix:
    """One suite; per patch what its bug-revealing and its regression test gave."""
    tests = tuple(
        TestEntry(id=kind, kind=kind, base=(), own_patch=()) for kind in ("fail_to_pass", "pass_to_pass")
    )  # fmt: skip
    return Matrix(
        instance_id="i",
        arm="main",
        patches=tuple(
            PatchEntry(patch_sha256=sha, runs=(f"r{n}",), chars=chars[sha], applies=True)
            for n, sha in enumerate(scores)
        ),
        suites=(SuiteEntry(suite_sha256="s", runs=("r0",), admitted=True, tests=tests),),
        outcomes={
            sha: {"s": {"fail_to_pass": bug, "pass_to_pass": regression}} for sha, (bug, regression) in scores.items()
        },
    )


def test_weights_margin_and_reasons():
    matrix = small({"a": ("passed", "failed"), "b": ("failed", "passed")}, {"a": 1, "b": 9})
    runs = [candidate("r0", "a"), candidate("r1", "b")]
    default = choose(matrix, runs)
    assert (default.run, default.scores, default.reason) == ("r1", {"a": 0.3, "b": 0.7}, "best score")
    assert choose(matrix, runs, weights=Weights(bug=0.7, regression=0.3)).run == "r0"
    tied = choose(matrix, runs, tie_margin=0.4)
    assert (tied.run, tied.tied, tied.reason) == ("r0", ("a", "b"), "shortest of 2 tied patches")


def test_a_suite_that_two_runs_archived_alike_counts_twice():
    matrix = small({"a": ("passed", "passed"), "b": ("failed", "passed")}, {"a": 9, "b": 1})
    other = matrix.suites[0].model_copy(update={"suite_sha256": "t", "runs": ("r1",)})
    outcomes = {"a": {**matrix.outcomes["a"], "t": {"fail_to_pass": "failed", "pass_to_pass": "passed"}}}
    outcomes["b"] = {**matrix.outcomes["b"], "t": {"fail_to_pass": "passed", "pass_to_pass": "passed"}}
    runs = [candidate("r0", "a"), candidate("r1", "b"), candidate("r2", "")]
    even = matrix.model_copy(update={"suites": (matrix.suites[0], other), "outcomes": outcomes})
    assert choose(even, runs).run == "r1"
    twice = matrix.suites[0].model_copy(update={"runs": ("r0", "r2")})
    found = choose(even.model_copy(update={"suites": (twice, other)}), runs)
    assert (found.run, found.scores) == ("r0", pytest.approx({"a": 0.9, "b": 0.8}))


def test_no_admitted_suite_is_a_policy():
    matrix = small({"a": ("passed", "failed"), "b": ("failed", "passed")}, {"a": 9, "b": 1}).model_copy(
        update={"suites": ()}
    )
    runs = [candidate("r0", "a"), candidate("r1", "b")]
    assert choose(matrix, runs, no_suite="abstain").run is None
    kept = choose(matrix, runs)
    assert (kept.run, kept.reason) == ("r0", "no admitted suite: first patch in run order")
    nothing = choose(matrix.model_copy(update={"patches": ()}), runs)
    assert (nothing.run, nothing.reason) == (None, "no patch to pick")


def test_an_incomplete_matrix_lets_no_suite_vote():
    matrix = small({"a": ("passed", "passed")}, {"a": 1}).model_copy(update={"error": "host on fire", "outcomes": {}})
    found = choose(matrix, [candidate("r0", "a")], no_suite="abstain")
    assert (found.run, found.reason) == (None, "matrix incomplete: host on fire")


def test_configuration_mistakes_are_told():
    with pytest.raises(ConfigError, match="nearest: cross_agent"):
        SelectionConfig(selectors=("cross_agents",))
    for options in ({"weights": {"bug": 0.5, "regression": 0.6}}, {"selectors": ()}, {"selectors": ("first", "first")}):
        with pytest.raises(ValidationError):
            SelectionConfig(**options)
    assert [found.selector for found in pick(small({}, {}), [], SelectionConfig())] == list(SELECTORS)
