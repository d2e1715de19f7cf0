"""The row of an arm: infra left out on both sides, unknown costs stay unknown, what is not valid is said."""

import csv

from tests.support.report import RUNS, candidate, graded, instance
from uchide.records import Usage
from uchide.report import ArmInputs, ReportInputs, build

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
