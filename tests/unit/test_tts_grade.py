"""Which verdict a pick gets."""

import pytest

from uchide.errors import StageError
from uchide.pipeline.stages.tts_grade import verdict_of
from uchide.records import Category, Graded, Pick, Verdict


def graded(run: str, category: Category) -> Graded:
    verdict = Verdict(
        instance_id="i", patch_sha256="p", grader="native", grader_version="1", environment="e", category=category
    )
    return Graded(candidate_id=f"main.{run}.i", instance_id="i", arm="main", run=run, verdict=verdict)


def pick(run: str | None, sha: str | None = "p") -> Pick:
    return Pick(instance_id="i", arm="main", selector="first", run=run, patch_sha256=sha)


@pytest.mark.parametrize(
    ("categories", "expected"),
    [
        (("resolved", "timeout"), "resolved"),
        (("timeout", "resolved"), "timeout"),
        (("infra", "resolved"), "resolved"),
        (("infra", "infra"), "infra"),
    ],
)
def test_the_verdict_is_of_the_picked_run_unless_infrastructure_failed_there(categories, expected):
    rows = [graded(f"r{n}", category) for n, category in enumerate(categories, start=1)]
    for order in (rows, rows[::-1]):
        verdict = verdict_of(pick("r1"), {("i", "p"): order})
        assert verdict is not None
        assert verdict.category == expected


def test_no_pick_has_no_verdict_and_a_patch_nobody_graded_is_an_error():
    assert verdict_of(pick(None, None), {}) is None
    with pytest.raises(StageError, match="which bench did not grade"):
        verdict_of(pick("r1", "other"), {("i", "p"): [graded("r1", "resolved")]})
