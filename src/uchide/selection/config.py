"""The selection part of an experiment."""

import difflib
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from uchide.errors import ConfigError

SELECTORS = ("cross_agent", "first", "shortest", "self_tests")


class Weights(BaseModel):
    """Share of bug-revealing (FAIL_TO_PASS) and of regression (PASS_TO_PASS) tests in a score; they sum to 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bug: float = Field(default=0.3, ge=0, le=1)
    regression: float = Field(default=0.7, ge=0, le=1)

    @model_validator(mode="after")
    def _sum(self) -> Self:
        if abs(self.bug + self.regression - 1) > 1e-9:
            raise ValueError(f"weights must sum to 1, not {self.bug + self.regression:g}")
        return self


class SelectionConfig(BaseModel):
    """Which selectors pick, and how they score."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    selectors: tuple[str, ...] = SELECTORS
    weights: Weights = Weights()
    tie_margin: float = Field(default=1e-3, ge=0)
    """Patches whose score is at most this below the best tie with it."""
    no_suite: Literal["abstain", "first_non_empty"] = "first_non_empty"
    """What `cross_agent` and `self_tests` do for an instance without an admitted suite."""

    @field_validator("selectors")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SELECTORS:
                near = difflib.get_close_matches(name, SELECTORS, n=1, cutoff=0.0)[0]
                raise ConfigError(f"unknown selector {name!r}", hint=f"nearest: {near}; known: {', '.join(SELECTORS)}")
        if len(set(names)) < len(names) or not names:
            raise ValueError("name each selector once, and at least one")
        return names


class MatrixSettings(BaseModel):
    """How suites are admitted and the cross-check matrix is run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=3, ge=1)
    """Times a test must behave the same on the base tree, and on the patch of its own run."""
    timeout_factor: float = Field(default=5.0, gt=1)
    """A test may take this many times its duration on the base tree, ..."""
    min_timeout_s: float = Field(default=10.0, gt=0)
    """... and at least this long."""
    base_timeout_s: float = Field(default=30.0, gt=0)
    """Limit of one test on the base tree."""
    min_run_s: float = Field(default=60.0, gt=0)
    """All tests together may take `timeout_factor` times their duration on the base tree, and at least this long."""
    max_run_s: float = Field(default=1800.0, gt=0)
    retries: int = Field(default=2, ge=0)
    """Times a failed sandbox is tried again."""
