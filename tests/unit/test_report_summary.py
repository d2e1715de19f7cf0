"""The numbers of a report against values worked out by hand, and what may not be reported at all."""

import dataclasses
import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.report import abstained, candidate, graded, instance, picked, realistic, verdict
from uchide.errors import ReportError
from uchide.records import Excluded, Graded, Matrix, PatchEntry, PickGraded, Usage
from uchide.report import ArmInputs, ReportInputs, StageTime, Summary, build, summarise
from uchide.report.console import console_table, console_text
from uchide.report.summary import wilson

R1, R2, R3 = "r01_s1001", "r02_s1002", "r03_s1003"
CELLS = {  # instance -> run -> (patch, category)
    "a": {R1: ("A1", "resolved"), R2: ("A2", "wrong_fix"), R3: ("A1", "resolved")},
    "b": {R1: ("", "empty_patch"), R2: ("B2", "resolved"), R3: ("B3", "regression")},
    "c": {R1: ("C1", "wrong_fix"), R2: ("C1", "wrong_fix"), R3: ("C3", "wrong_fix")},
    "d": {R1: ("D1", "resolved"), R2: ("", "infra"), R3: ("D3", "timeout")},
}


def make(cells: dict = CELLS, name: str = "main", picks: tuple[PickGraded, ...] | None = None, **more) -> ReportInputs:
    made, rows = {}, {}
    for i, by_run in cells.items():
        for run, (patch, category) in by_run.items():
            made[run, i] = candidate(run, i, patch, arm=name)
            rows[run, i] = graded(made[run, i], category)
    if picks is None and cells is CELLS:
        tied = (made[R1, "a"].patch_sha256, made[R2, "a"].patch_sha256)
        choice = {"a": R1, "b": R3, "d": R1}
        cross = [
            picked("cross_agent", rows[run, i], made[run, i], tied if i == "a" else ()) for i, run in choice.items()
        ]
        first = [picked("first", rows[run, i], made[run, i]) for i, run in (("a", R1), ("b", R2), ("c", R1), ("d", R1))]
        picks = (*cross, abstained("cross_agent", "c", name), *first)
    arm = ArmInputs(
        name=name, runs=(R1, R2, R3), candidates=list(made.values()), graded=list(rows.values()), picks=picks or ()
    )
    return ReportInputs(experiment="tiny", arms=(arm,), instances=[instance(i) for i in cells], **more)


def swap(inputs: ReportInputs, **changes) -> ReportInputs:
    return dataclasses.replace(inputs, arms=(dataclasses.replace(inputs.arms[0], **changes),))


def test_numbers_equal_those_worked_out_by_hand():
    times = (
        StageTime("bench", 10.0, 11.0, "main", "generate"),
        StageTime("bench", 2.5, 3.0, "main", "grade"),
        StageTime("prepare", 4.0, 5.0),
    )
    summary = summarise(make(excluded=[Excluded(instance_id="z", reason="gold fails")], times=times))
    assert (summary.experiment, summary.k, summary.n_instances, summary.n_excluded) == ("tiny", 3, 4, 1)
    assert [(row.run, row.resolved) for row in summary.per_run] == [(R1, 2), (R2, 1), (R3, 1)]
    assert (summary.pass_at_1.mean, summary.pass_at_1.min, summary.pass_at_1.max) == (4 / 3, 1, 2)
    assert summary.oracle == 3
    assert summary.selected == {"cross_agent": 2, "first": 3}
    # (2 - 4/3) / (3 - 4/3) = 0.4 and (3 - 4/3) / (3 - 4/3) = 1
    assert summary.gap_closed["cross_agent"] == pytest.approx(0.4)
    assert summary.gap_closed["first"] == pytest.approx(1.0)
    assert (summary.ties, summary.selector) == (1, "cross_agent")
    assert summary.unique_patches_mean == (2 + 2 + 2 + 2) / 4
    assert summary.categories == {
        "empty_patch": 1, "infra": 1, "regression": 1, "resolved": 4, "timeout": 1, "wrong_fix": 4,
    }  # fmt: skip
    assert summary.infra == 1
    assert summary.cpu_seconds == {"bench": 12.5, "prepare": 4.0}
    assert summary.wall_seconds == {"bench": 14.0, "prepare": 5.0}
    assert summary.tokens.model_dump() == {"calls": 144, "prompt": 12_000, "completion": 1_200, "cached": None}
    assert summary.arms == {}


def test_gap_closed_is_null_when_the_oracle_equals_the_mean():
    same = {"a": dict.fromkeys((R1, R2, R3), ("A", "resolved")), "b": dict.fromkeys((R1, R2, R3), ("B", "wrong_fix"))}
    inputs = make(same, picks=(abstained("cross_agent", "a"), abstained("cross_agent", "b")))
    summary = summarise(inputs)
    assert (summary.oracle, summary.pass_at_1.mean) == (1, 1.0)
    assert summary.gap_closed == {"cross_agent": None}


def test_gap_closed_is_negative_for_a_selector_worse_than_chance():
    inputs = make(picks=tuple(abstained("cross_agent", i) for i in CELLS))
    assert summarise(inputs).gap_closed["cross_agent"] == pytest.approx((0 - 4 / 3) / (3 - 4 / 3))


def test_without_picks_there_are_counts_but_no_selectors():
    summary = summarise(make(picks=()))
    assert (summary.selected, summary.gap_closed, summary.ties, summary.selector) == ({}, {}, 0, None)
    assert summary.oracle == 3


def test_a_missing_headline_selector_gives_way_to_the_first_one():
    summary = summarise(make(selector="b4"))
    assert summary.selector == "cross_agent"


def test_the_order_of_rows_changes_nothing(tmp_path):
    inputs = make()
    arm = inputs.arms[0]
    turned = swap(
        inputs, candidates=arm.candidates[::-1], graded=arm.graded[::-1], picks=arm.picks[:4][::-1] + arm.picks[4:]
    )
    for name, given in (("one", inputs), ("two", turned)):
        build(given, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 3 + 2 * 7
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_several_arms_keep_their_numbers_and_costs_apart():
    main, other = make(), make(name="no_tests", picks=())
    both = dataclasses.replace(
        main,
        arms=main.arms + other.arms,
        times=(
            StageTime("bench", 1.0, 1.0, "main"),
            StageTime("bench", 2.0, 2.0, "no_tests"),
            StageTime("test", 4.0, 4.0),
        ),
    )
    summary = summarise(both)
    assert list(summary.arms) == ["main", "no_tests"]
    assert summary.arms["main"].selected == summary.selected == {"cross_agent": 2, "first": 3}
    assert summary.arms["no_tests"].selected == {}
    assert summary.cpu_seconds == {"bench": 3.0, "test": 4.0}
    assert summary.arms["no_tests"].cpu_seconds == {"bench": 2.0}


def test_cached_tokens_are_summed_where_a_server_reports_them():
    inputs = make()
    first, *rest = inputs.arms[0].candidates
    told = first.model_copy(update={"usage": Usage(calls=1, prompt_tokens=10, completion_tokens=1, cached_tokens=7)})
    assert summarise(swap(inputs, candidates=[told, *rest])).tokens.cached == 7


def test_an_infra_rollout_counts_once_even_when_its_verdict_says_empty():
    inputs = make()
    rows = [c.model_copy(update={"exit_status": "infra"}) if not c.patch else c for c in inputs.arms[0].candidates]
    assert summarise(swap(inputs, candidates=rows)).infra == 2


def test_the_file_reads_back_as_the_same_summary(tmp_path):
    summary = build(make(), tmp_path)
    text = (tmp_path / "summary.json").read_text()
    assert Summary.model_validate_json(text) == summary
    assert list(json.loads(text))[:4] == ["schema_version", "experiment", "k", "n_instances"]


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (374, 500, 0.70815, 0.78407)],
)
def test_wilson_interval(successes, n, low, high):
    got = wilson(successes, n)
    assert math.isclose(got[0], low, abs_tol=5e-5)
    assert math.isclose(got[1], high, abs_tol=5e-5)


# --- what must not be reported ----------------------------------------------------------------------------------------
def without_a_candidate(inputs: ReportInputs) -> ReportInputs:
    return swap(inputs, candidates=inputs.arms[0].candidates[1:])


def with_a_candidate_twice(inputs: ReportInputs) -> ReportInputs:
    return swap(inputs, candidates=[*inputs.arms[0].candidates, inputs.arms[0].candidates[0]])


def without_a_verdict(inputs: ReportInputs) -> ReportInputs:
    return swap(inputs, graded=inputs.arms[0].graded[:-1])


def with_another_patchs_verdict(inputs: ReportInputs) -> ReportInputs:
    first, second, *rest = inputs.arms[0].graded
    return swap(inputs, graded=[Graded(**(dict(first) | {"verdict": second.verdict})), second, *rest])


def without_a_pick(inputs: ReportInputs) -> ReportInputs:
    return swap(inputs, picks=inputs.arms[0].picks[1:])


def with_a_pick_of_another_run(inputs: ReportInputs) -> ReportInputs:
    first, *rest = inputs.arms[0].picks
    return swap(
        inputs, picks=[PickGraded(pick=first.pick.model_copy(update={"run": R2}), verdict=first.verdict), *rest]
    )


def with_a_pick_graded_by_another_verdict(inputs: ReportInputs) -> ReportInputs:
    first, *rest = inputs.arms[0].picks
    other = verdict(inputs.arms[0].candidates[1], "resolved")
    return swap(inputs, picks=[PickGraded(pick=first.pick, verdict=other), *rest])


def with_a_foreign_instance(inputs: ReportInputs) -> ReportInputs:
    return dataclasses.replace(inputs, instances=inputs.instances[:-1])


def with_a_matrix_of_other_patches(inputs: ReportInputs) -> ReportInputs:
    entry = PatchEntry(patch_sha256="f" * 64, runs=(R1,), chars=3, applies=True)
    return swap(inputs, matrices=[Matrix(instance_id="a", arm="main", patches=(entry,), suites=(), outcomes={})])


def with_an_unknown_outcome(inputs: ReportInputs) -> ReportInputs:
    matrix = Matrix(instance_id="a", arm="main", patches=(), suites=(), outcomes={"f" * 64: {}})
    return swap(inputs, matrices=[matrix])


def without_instances(inputs: ReportInputs) -> ReportInputs:
    return dataclasses.replace(inputs, instances=[])


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (without_a_candidate, "candidates of arm main: 1 missing, e.g. r01_s1001 a"),
        (with_a_candidate_twice, "r01_s1001 a stands there twice"),
        (without_a_verdict, "verdicts of arm main: 1 missing, e.g. r03_s1003 d"),
        (with_another_patchs_verdict, "main.r01_s1001.a: its verdict is of another patch"),
        (without_a_pick, "picks of cross_agent in arm main: 1 missing, e.g. a"),
        (with_a_pick_of_another_run, "run r02_s1002 did not make the picked patch"),
        (with_a_pick_graded_by_another_verdict, "the verdict is not of the picked patch"),
        (with_a_foreign_instance, "belongs to no run or instance"),
        (with_a_matrix_of_other_patches, "run r01_s1001 did not make ffffffffffff"),
        (with_an_unknown_outcome, "has no such patch, suite or test"),
        (without_instances, "no instance takes part"),
    ],
)
def test_rows_that_do_not_belong_together_stop_the_report(tmp_path, spoil, names):
    with pytest.raises(ReportError) as error:
        build(spoil(make()), tmp_path / "out")
    assert names in str(error.value)
    assert not (tmp_path / "out").exists()


# --- the terminal -----------------------------------------------------------------------------------------------------
def test_the_console_table_says_the_same_as_the_summary():
    text = console_text(summarise(make()), Path("reports/tiny/index.html"))
    assert text.splitlines() == [
        "tiny: resolved of 4",
        "r01_s1001                  2",
        "r02_s1002                  1",
        "r03_s1003                  1",
        "mean pass@1              1.3  1 to 2",
        "selected by cross_agent    2  40 % of the oracle gap closed",
        "selected by first          3  100 % of the oracle gap closed",
        "oracle                     3  at least one run",
        "infra failures             1  of 12 candidates",
        "report: reports/tiny/index.html",
    ]


def test_the_rich_table_never_breaks_the_path_nor_reads_markup():
    path = Path("/a/very/long/path" * 8) / "[bold]reports[/bold]" / "index.html"
    screen = io.StringIO()
    Console(file=screen, width=80).print(console_table(summarise(make()), path), soft_wrap=True)
    assert f"report: {path}" in screen.getvalue()
    assert "40 % of the oracle gap closed" in screen.getvalue()


def test_the_realistic_experiment_is_consistent(tmp_path):
    summary = summarise(realistic(tmp_path, n=5, k=3))
    assert sum(summary.categories.values()) == 15
    assert summary.pass_at_1.min <= summary.pass_at_1.mean <= summary.pass_at_1.max <= summary.oracle
