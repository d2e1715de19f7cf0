"""The row of an arm: infra left out on both sides, unknown costs stay unknown, what is not valid is said."""

import csv
from dataclasses import replace

from tests.support.report import RUNS, candidate, graded, instance
from uchide.records import Usage
from uchide.report import ArmInputs, ReportInputs, build
from uchide.report.console import console_text
from uchide.report.summary import Summary

A, B = "a__a-1", "b__b-2"


def arm(name: str, outcomes: dict[str, str], **more) -> ArmInputs:
    """One run; `outcomes` is instance -> category."""
    made = [candidate(RUNS[0], i, f"patch of {i}\n", arm=name, **more) for i in outcomes]
    rows = [graded(row, outcomes[row.instance_id]) for row in made]
    return ArmInputs(name=name, runs=RUNS[:1], candidates=made, graded=rows)


def test_an_arm_has_a_row_in_the_table_the_page_and_the_job_summary(tmp_path) -> None:
    arms = (
        arm("full", {A: "resolved", B: "infra"}, usage=Usage(calls=4, cost=0.5), format_errors=2),
        arm("off", {A: "wrong_fix", B: "resolved"}, leaderboard_valid=False, usage=Usage(calls=2, cost=None)),
    )
    build(ReportInputs(experiment="x", arms=arms, instances=[instance(A), instance(B)]), tmp_path)
    with (tmp_path / "tables/arms.csv").open() as file:
        full, off = csv.DictReader(file)
    assert (full["cost"], full["infra"], full["rate_valid"], full["format_errors"]) == ("1", "1", "1", "4")
    assert (off["cost"], off["difference"], off["leaderboard_valid"]) == ("", "-1", "false")  # B pairs with nothing
    page, summary = (tmp_path / "index.html").read_text(), (tmp_path / "summary.md").read_text()
    for text in (page, summary):
        assert "not leaderboard-valid" in text
        assert "unknown" in text
        assert "-1.0" in text
        assert "$1.00" in text


def test_what_differs_and_what_a_pool_is_are_said_and_its_candidates_stand_once(tmp_path) -> None:
    base = arm("full", {A: "resolved"})
    off = replace(arm("off", {A: "wrong_fix"}), differs="agent.mechanisms.skills: false")
    named = [row.model_copy(update={"run": f"{row.arm}.{row.run}"}) for row in (*base.candidates, *off.candidates)]
    again = [row.model_copy(update={"run": f"{row.arm}.{row.run}"}) for row in (*base.graded, *off.graded)]
    runs = tuple(row.run for row in named)
    pool = ArmInputs(name="both", runs=runs, candidates=named, graded=again, pool=("full", "off"))
    build(ReportInputs(experiment="x", arms=(base, off, pool), instances=[instance(A)]), tmp_path)
    tables = {
        name: list(csv.DictReader((tmp_path / f"tables/{name}.csv").open()))
        for name in ("arms", "candidates", "verdicts")
    }
    assert [row["pool"] for row in tables["arms"]] == ["", "", "full, off"]
    assert [row["differs"] for row in tables["arms"]] == ["", "agent.mechanisms.skills: false", ""]
    assert len(tables["candidates"]) == len(tables["verdicts"]) == 2
    page, summary = (tmp_path / "index.html").read_text(), (tmp_path / "summary.md").read_text()
    for text in (page, summary):
        assert "pool of full, off" in text
        assert "agent.mechanisms.skills: false" in text
    printed = console_text(Summary.model_validate_json((tmp_path / "summary.json").read_text()), tmp_path)
    assert "pool both" in printed
    assert "of full, off" in printed
