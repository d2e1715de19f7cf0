"""Records: canonical form and digests."""

import pytest
from pydantic import ValidationError

from uchide.records import FileContent, Graded, Suite, Verdict, canonical, digest


def verdict(**more: object) -> Verdict:
    base = {"instance_id": "i", "patch_sha256": "p", "grader": "native", "grader_version": "1", "environment": "e"}
    return Verdict.model_validate(base | {"category": "resolved"} | more)


def test_volatile_columns_change_no_digest_at_any_depth() -> None:
    graded = [
        Graded(candidate_id="c", instance_id="i", arm="main", run="r01_s1001", verdict=verdict(cpu_seconds=s, cached=c))
        for s, c in ((1.0, False), (2.5, True))
    ]
    assert canonical(graded[0]) == canonical(graded[1])
    assert digest(graded[0]) != digest(graded[0].model_copy(update={"run": "r02_s1002"}))


def test_digest_is_of_content_not_of_order() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert digest("é\u2028") == digest("é\u2028".encode())


def test_suite_digest_depends_on_every_part() -> None:
    base = Suite(instance_id="i", files=(FileContent(path="t.py", data="x"),), fail_to_pass=("a",), pass_to_pass=("b",))
    others = [
        base.model_copy(update={"fail_to_pass": ("b",)}),
        base.model_copy(update={"pass_to_pass": ()}),
        base.model_copy(update={"files": (FileContent(path="t.py", data="y"),)}),
    ]
    assert len({base.sha256, *(o.sha256 for o in others)}) == 4


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="surprise"):
        verdict(surprise=1)
    with pytest.raises(ValidationError, match="category"):
        verdict(category="great")
