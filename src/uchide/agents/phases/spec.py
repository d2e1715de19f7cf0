"""The declaration of a phases runtime: the YAML file as validated models."""

import difflib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from uchide.actions import FORMATS
from uchide.agents.limits import Count, RolloutLimits, SamplingSpec, SandboxLimits, StrictModel
from uchide.errors import ConfigError
from uchide.tools import TOOL_FILES

BUILT_IN = Path(__file__).parent / "phases.yaml"
DIFF = "diff"
"""The product that is not a file of the share: a change of at least one file that is no test."""


class PhaseLimits(RolloutLimits):
    """The limits of every rollout, and those that come with phases."""

    phase_visits: Count = Field(default=24, ge=1)
    """Phases entered, over all (`visit_limit`)."""
    handover_turns: Count = Field(default=60, ge=2)
    """Turns after which a conversation is asked to hand over to a fresh one."""


class PhaseSpec(StrictModel):
    """One phase."""

    goal: str
    prompt: str
    """Template in the prompts folder."""
    workflow: tuple[str, ...] = Field(min_length=1)
    """The steps W0, W1, ... in words."""
    due: tuple[str, ...] = ()
    """Products without which COMPLETE is refused: files of the share, or `diff`."""
    optional: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    on_complete: str | None
    on_giveup: str
    turns: Count = Field(default=80, ge=1)
    """Turns per visit; the phase is then left by its give-up edge."""
    visits: Count = Field(default=4, ge=1)

    @field_validator("due", "optional")
    @classmethod
    def _plain_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name or "/" in name or name.startswith("."):
                raise ValueError(f"{name!r} is not the name of a file directly in the share")
        return names


class PhasesSpec(StrictModel):
    """The whole runtime."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    initial: str
    action_format: str = "tool_bash"
    limits: PhaseLimits = PhaseLimits()
    sandbox: SandboxLimits = SandboxLimits()
    sampling: SamplingSpec = SamplingSpec()
    phases: dict[str, PhaseSpec] = Field(min_length=1)

    @property
    def tools(self) -> tuple[str, ...]:
        """Every tool that some phase uses, in order of first use."""
        return tuple(dict.fromkeys(tool for phase in self.phases.values() for tool in phase.tools))

    def edges(self) -> list[tuple[str, Literal["complete", "giveup"], str]]:
        """(from, kind, to), in the order of the file."""
        found: list[tuple[str, Literal["complete", "giveup"], str]] = []
        for name, phase in self.phases.items():
            if phase.on_complete is not None:
                found.append((name, "complete", phase.on_complete))
            found.append((name, "giveup", phase.on_giveup))
        return found

    @model_validator(mode="after")
    def _is_a_graph(self) -> Self:
        if self.initial not in self.phases:
            raise ValueError(f"initial: {_unknown(self.initial, self.phases)}")
        for source, kind, target in self.edges():
            if target not in self.phases:
                raise ValueError(f"phases.{source}.on_{kind}: {_unknown(target, self.phases)}")
        if lost := [name for name in self.phases if name not in self._reachable()]:
            raise ValueError(f"phases.{lost[0]}: unreachable from {self.initial}")
        if all(phase.on_complete is not None for phase in self.phases.values()):
            raise ValueError("phases: none has `on_complete: null`, so no rollout can complete")
        return self

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        if self.action_format not in FORMATS:
            raise ValueError(f"action_format: unknown {self.action_format!r}, known: {', '.join(FORMATS)}")
        for name, phase in self.phases.items():
            for tool in phase.tools:
                if tool not in TOOL_FILES:
                    raise ValueError(f"phases.{name}.tools: unknown tool {tool!r}, known: {', '.join(TOOL_FILES)}")
        return self

    def _reachable(self) -> set[str]:
        seen, queue = {self.initial}, deque([self.initial])
        while queue:
            here = queue.popleft()
            for source, _, target in self.edges():
                if source == here and target not in seen:
                    seen.add(target)
                    queue.append(target)
        return seen


def _unknown(name: str, phases: Mapping[str, PhaseSpec]) -> str:
    close = difflib.get_close_matches(name, phases, n=1)
    return f"unknown phase {name!r}" + (f", did you mean {close[0]!r}?" if close else "")


def load_spec(path: Path = BUILT_IN, overrides: Mapping[str, Any] | None = None) -> PhasesSpec:
    """The spec in `path`, with `overrides` (same shape) laid over it key by key. Raises ConfigError."""
    try:
        return parse_spec(path.read_text("utf-8"), str(path), overrides)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {error}") from error


def parse_spec(text: str, where: str, overrides: Mapping[str, Any] | None = None) -> PhasesSpec:
    """The same from the text of the file `where`."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: a mapping is expected at the top")
    try:
        return PhasesSpec.model_validate(_overlay(data, overrides or {}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{where}: {place + ': ' if place else ''}{message}") from error


def _overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _overlay(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
