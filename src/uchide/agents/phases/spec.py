"""The declaration of a phases runtime: the YAML file as validated models."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from uchide.actions import FORMATS
from uchide.agents.limits import Count, Flag, RolloutLimits, SamplingSpec, SandboxLimits, StrictModel
from uchide.agents.overlay import overlay
from uchide.agents.phases.faults import fault, meant
from uchide.errors import ConfigError
from uchide.tools import TOOL_FILES

BUILT_IN = Path(__file__).parent / "phases.yaml"
FREE = "FREE"
"""The only phase of a runtime without phases."""
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


class Mechanisms(StrictModel):
    """The parts of the runtime that an ablation can switch off (the formatter: on)."""

    phases: Flag = True
    """False: the one phase FREE in place of the graph."""
    formatter: Flag = False
    """True: a second call per turn, of the role `formatter`, writes the action into its format."""
    handover: Flag = True
    """False: no memos; a phase sees the issue and the files of the share only."""
    skills: Flag = True
    tools: Flag = True
    """False: none of the agent's tools; those that belong to a model stay."""


class RoleSampling(StrictModel):
    """Sampling of the two roles of a turn where a formatter takes part; what is not given is that of `sampling`."""

    planner: SamplingSpec = SamplingSpec()
    formatter: SamplingSpec = SamplingSpec()


def _built_in_free() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((BUILT_IN.parent / "free.yaml").read_text("utf-8"))
    return data


class PhasesSpec(StrictModel):
    """The whole runtime."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    initial: str
    action_format: str = "tool_bash"
    limits: PhaseLimits = PhaseLimits()
    sandbox: SandboxLimits = SandboxLimits()
    sampling: SamplingSpec = SamplingSpec()
    roles: RoleSampling = RoleSampling()
    mechanisms: Mechanisms = Mechanisms()
    phases: dict[str, PhaseSpec] = Field(min_length=1)
    free: PhaseSpec = Field(default={}, validate_default=True)
    """The phase FREE of `mechanisms.phases: false`; keys that are not given are those of `free.yaml`."""

    def active(self) -> Self:
        """What a rollout runs: the spec with its `phases` as the mechanisms leave them."""
        phases, initial = dict(self.phases), self.initial
        if not self.mechanisms.phases:
            phases, initial = {FREE: self.free}, FREE
        if not self.mechanisms.tools:
            phases = {name: phase.model_copy(update={"tools": ()}) for name, phase in phases.items()}
        return self.model_copy(update={"phases": phases, "initial": initial})

    @property
    def role(self) -> str:
        """Who speaks in a conversation."""
        return "planner" if self.mechanisms.formatter else "agent"

    def sampling_of(self, role: str) -> SamplingSpec:
        """Sampling of `agent`, `planner` or `formatter`."""
        own = {"planner": self.roles.planner, "formatter": self.roles.formatter}.get(role, SamplingSpec())
        return self.sampling.model_copy(update=own.model_dump(exclude_none=True))

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

    @field_validator("free", mode="before")
    @classmethod
    def _over_the_built_in(cls, given: object) -> object:
        return {**_built_in_free(), **given} if isinstance(given, Mapping) else given

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
            raise ValueError(
                f"action_format: unknown {self.action_format!r}, known: {', '.join(FORMATS)}"
                f"{meant(self.action_format, FORMATS)}"
            )
        named = [(f"phases.{name}", phase) for name, phase in self.phases.items()]
        for where, phase in (*named, ("free", self.free)):
            for tool in phase.tools:
                if tool not in TOOL_FILES:
                    known = f"{', '.join(TOOL_FILES)}{meant(tool, TOOL_FILES)}"
                    raise ValueError(f"{where}.tools: unknown tool {tool!r}, known: {known}")
        if (free := self.free).on_complete is not None or free.on_giveup != FREE:
            raise ValueError(f"free: its edges must be `on_complete: null` and `on_giveup: {FREE}`")
        return self

    @model_validator(mode="after")
    def _answers_fit(self) -> Self:
        window = self.limits.context_tokens
        for role in ("planner", "formatter"):
            answer = self.sampling_of(role).max_tokens
            if window is not None and answer is not None and answer >= window:
                raise ValueError(f"limits.context_tokens: {window} leaves no room beside max_tokens {answer} ({role})")
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
    return f"unknown phase {name!r}{meant(name, phases)}"


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
        return PhasesSpec.model_validate(overlay(data, overrides or {}))
    except ValidationError as error:
        raise fault(error, _faulty(data), where, PhasesSpec) from error


def _faulty(data: Mapping[str, Any]) -> ValidationError | None:
    try:
        PhasesSpec.model_validate(data)
    except ValidationError as error:
        return error
    return None
