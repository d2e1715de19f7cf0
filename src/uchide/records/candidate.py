"""Candidates: what one run made for one instance."""

from typing import Literal

from pydantic import Field

from uchide.records.base import VOLATILE, Record, digest
from uchide.records.instance import FileContent

ExitStatus = Literal[
    "completed",  # FINAL_REPORT finished
    "gave_up",
    "step_limit",
    "token_limit",
    "time_limit",
    "cost_limit",
    "context_exceeded",  # even a fresh conversation does not fit the model's context
    "format_errors",
    "visit_limit",
    "infra",  # our fault, not the model's: retried, never scored as a failure of the model
]


class Suite(Record):
    """The tests one run archived for one instance."""

    schema_version: Literal[1] = 1
    instance_id: str
    files: tuple[FileContent, ...] = ()
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        return digest(self)


class Usage(Record):
    """Tokens as the server counted them; `cached` is None where it does not say. `cost` is in US dollars, None where a
    price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    cost: float | None = None


class Candidate(Record):
    """One finished rollout. A rollout that ends badly is a candidate too."""

    schema_version: Literal[1] = 1
    candidate_id: str
    """`<arm>.<run>.<instance_id>`."""
    arm: str
    run: str
    seed: int
    instance_id: str
    exit_status: ExitStatus
    error: str = ""
    """For `infra`: what failed. Empty otherwise."""
    patch: str
    """Unified diff of the non-test files against the base tree; empty when there is none."""
    patch_sha256: str
    suite: Suite
    suite_sha256: str
    report: str = ""
    warnings: tuple[str, ...] = ()
    """What patch collection dropped or noticed (binary files, mode changes, ...)."""
    phases: tuple[str, ...] = ()
    """The phases visited, in order."""
    leaderboard_valid: bool = True
    """False where the agent was given what a leaderboard forbids (the dataset's own test lists)."""
    turns: int
    format_errors: int = 0
    usage: Usage
    trajectory: str
    """Path of the trajectory inside the same artifact."""
    trajectory_sha256: str = Field(json_schema_extra=VOLATILE)
    attempts: int = Field(default=1, json_schema_extra=VOLATILE)
    cpu_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)
    wall_seconds: float = Field(default=0.0, json_schema_extra=VOLATILE)
