"""The cross-check matrix of an instance, and what a selector picked from it."""

from typing import Literal

from pydantic import Field

from uchide.records.base import VOLATILE, Record
from uchide.records.verdict import TestStatus, Verdict


class PatchEntry(Record):
    """One distinct non-empty patch and the runs that produced it (in run order)."""

    patch_sha256: str
    runs: tuple[str, ...]
    chars: int
    """Length of the raw patch in characters."""
    applies: bool


class TestEntry(Record):
    """One test of a suite with what admission found."""

    __test__ = False

    id: str
    kind: Literal["fail_to_pass", "pass_to_pass"]
    base: tuple[TestStatus, ...]
    own_patch: tuple[TestStatus, ...]
    dropped: str = ""
    """Why admission dropped it; empty when kept."""


class SuiteEntry(Record):
    """One distinct suite and the runs that archived it."""

    suite_sha256: str
    runs: tuple[str, ...]
    admitted: bool
    reason: str = ""
    tests: tuple[TestEntry, ...]


class Matrix(Record):
    """Patches x suites of one instance, per test.

    `outcomes[patch_sha256][suite_sha256][test id]` is a status; only admitted suites and kept tests appear, and only
    patches that apply.
    """

    schema_version: Literal[1] = 1
    instance_id: str
    arm: str
    patches: tuple[PatchEntry, ...]
    suites: tuple[SuiteEntry, ...]
    outcomes: dict[str, dict[str, dict[str, TestStatus]]]
    error: str = ""
    """An infrastructure failure that left the matrix incomplete."""
    processes: int = 0
    """Test processes run."""
    cpu_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)
    wall_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)


class Pick(Record):
    """A selector's choice for one instance. `run` is None when it abstains."""

    schema_version: Literal[1] = 1
    instance_id: str
    arm: str
    selector: str
    run: str | None
    patch_sha256: str | None
    scores: dict[str, float] = Field(default_factory=dict)
    """patch_sha256 -> score, of every patch that could be picked."""
    tied: tuple[str, ...] = ()
    """Patches within the tie margin of the best, the pick included; more than one means a tie."""
    reason: str = ""


class PickGraded(Record):
    """A pick with the verdict of exactly its patch."""

    schema_version: Literal[1] = 1
    pick: Pick
    verdict: Verdict | None
