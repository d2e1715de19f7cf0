"""Limits of a rollout that every agent has, each with an exit status of its own, and its sampling parameters."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from uchide.protocols import Sampling

Count = Annotated[int, Strict()]
"""`yes` in a YAML file is not 1."""
Flag = Annotated[bool, Strict()]
"""True or false, nothing that could be read as either."""


class StrictModel(BaseModel):
    """A part of an agent's configuration: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RolloutLimits(StrictModel):
    """When a rollout ends."""

    steps: Count = Field(default=400, ge=1)
    """Turns of the whole rollout (`step_limit`)."""
    tokens: Count = Field(default=20_000_000, ge=1)
    """Prompt and completion tokens of all calls together (`token_limit`)."""
    cost: float | None = Field(default=None, gt=0)
    """US dollars of all calls whose cost is known, unreadable replies included (`cost_limit`); None: no limit."""
    wall_time_s: float = Field(default=7200.0, gt=0)
    """(`time_limit`)"""
    format_errors: Count = Field(default=5, ge=1)
    """Consecutive replies that cannot be read (`format_errors`)."""
    action_timeout_s: float = Field(default=600.0, gt=0)
    output_chars: Count = Field(default=30_000, ge=200)
    """An observation longer than this loses its middle."""
    context_tokens: Count | None = Field(default=None, ge=256)
    """Tokens that a request and its answer may have together; None: what the model's server says, if it does."""
    repeats: Count = Field(default=3, ge=2)
    """Identical actions in a row that draw a warning."""
    failures: Count = Field(default=5, ge=2)
    """Actions in a row that failed with the same return code, to draw a warning."""


class SandboxLimits(StrictModel):
    """What the rollout's sandbox may use, in MiB; see `uchide.protocols.Limits`."""

    memory_mb: Count = Field(default=3072, ge=64)
    processes: Count = Field(default=200, ge=8)
    disk_mb: Count = Field(default=1536, ge=16)
    file_mb: Count = Field(default=512, ge=1)


class SamplingSpec(StrictModel):
    """Sampling parameters sent with every request; None leaves the server's default."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)

    def with_seed(self, seed: int) -> Sampling:
        return Sampling(seed, self.temperature, self.top_p, self.max_tokens)
