"""Verdicts: the grader's answer for one patch on one instance."""

from typing import Literal

from pydantic import Field

from uchide.records.base import VOLATILE, Record

Category = Literal[
    "resolved",
    "empty_patch",
    "patch_did_not_apply",
    "wrong_fix",  # a FAIL_TO_PASS test still fails
    "regression",  # all FAIL_TO_PASS pass, a PASS_TO_PASS test fails
    "timeout",
    "no_results",  # the tests never ran: the patch broke collection, or the process died
    "infra",  # the grader or sandbox failed: no statement about the patch
]

TestStatus = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "timeout", "not_found", "crashed"]


class Verdict(Record):
    """`resolved` holds exactly when every FAIL_TO_PASS and PASS_TO_PASS id passed."""

    schema_version: Literal[1] = 1
    instance_id: str
    patch_sha256: str
    grader: str
    grader_version: str
    environment: str
    """Key of the environment the tests ran in."""
    category: Category
    fail_to_pass_failed: tuple[str, ...] = ()
    pass_to_pass_failed: tuple[str, ...] = ()
    message: str = Field(default="", json_schema_extra=VOLATILE)
    """What failed, in words; it may quote addresses and times, so it is no part of the content."""
    cached: bool = Field(default=False, json_schema_extra=VOLATILE)
    cpu_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)
    wall_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)

    @property
    def resolved(self) -> bool:
        return self.category == "resolved"


class Graded(Record):
    """One row of bench.grade: a candidate linked to the verdict of exactly its patch."""

    schema_version: Literal[1] = 1
    candidate_id: str
    instance_id: str
    arm: str
    run: str
    verdict: Verdict


class Preflight(Record):
    """One row of the test stage: does the instance behave as its row says?"""

    schema_version: Literal[1] = 1
    instance_id: str
    ok: bool
    reason: str = ""
    gold: Verdict | None = None
    empty: Verdict | None = None
    """Verdict of the unpatched tree (graded as if it had a patch): must not be resolved."""
