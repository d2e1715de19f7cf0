"""The experiment file: its models, how it is read, and how a wrong one is explained."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from uchide.agents.overlay import overlay
from uchide.errors import ConfigError
from uchide.llm.spend import SpendCaps
from uchide.pipeline.ablation import Ablation, with_ablation
from uchide.pipeline.secretcheck import refuse_secrets
from uchide.pipeline.section import Section
from uchide.pipeline.yamlfile import Document, KeyPath, load
from uchide.selection.config import MatrixSettings, SelectionConfig

NAME = r"^[a-z0-9][a-z0-9_-]{0,39}$"
Reusable = Literal["prepare", "bench"]
Selector = Literal["cross_agent", "first", "shortest", "self_tests"]


class Choice(Section):
    """An implementation by name, with overrides of its own configuration beside the name."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str = Field(min_length=1)

    def merged(self, override: "Choice | None") -> "Choice":
        """The override's keys over ours, section by section; another name starts afresh."""
        if override is None or override.name != self.name:
            return override or self
        return Choice.model_validate(overlay(self.model_dump(), override.model_dump()))


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Named = Annotated[Choice, BeforeValidator(_named, json_schema_input_type=str | Choice)]


class Dataset(Section):
    """Which instances. Filters combine; what is left must not be empty."""

    name: str = Field(min_length=1)
    """A bundled dataset (`mini`, `release-bugs`) or, with `path`, a name of your own."""
    path: str | None = None
    """A `.json`, `.jsonl` or `.parquet` file of rows, relative to the checkout."""
    ids: tuple[str, ...] | None = Field(default=None, min_length=1)
    split: Literal["train", "heldout"] | None = None
    repo: str | None = None
    limit: int | None = Field(default=None, ge=1)
    """At most this many instances, in the dataset's order."""


class Shards(Section):
    size: int = Field(default=50, ge=1)
    """Instances per job."""


class Arm(Section):
    """One configuration beside others: what differs from the experiment's agent and model."""

    agent: Named | None = None
    model: Named | None = None


class Selection(SelectionConfig):
    """How picks are made (see `uchide.selection.config`), and from which matrix."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    selectors: tuple[Selector, ...] = Field(default=get_args(Selector), min_length=1)
    matrix: MatrixSettings = MatrixSettings()


class Policy(Section):
    """What happens when things go wrong. Nothing here changes what a finished row contains."""

    max_infra: float = Field(default=0.02, ge=0, le=1)
    """Share of rows that may fail for reasons of infrastructure before the stage fails."""
    code_drift: Literal["print", "rerun"] = "print"
    """When prepare or bench were made by other code than today's: say so, or run them again."""
    preflight: Literal["exclude", "fatal"] = "exclude"
    """What a bad instance does: it is listed and left out, or it stops the experiment."""
    concurrency: int | None = Field(default=None, ge=1)
    """Rows worked on at once, all jobs together; by default the number of CPUs."""
    spend: SpendCaps = SpendCaps()
    """What the models may use, all runs and reruns of the experiment together."""


class Experiment(Section):
    """One experiment file: everything a push runs."""

    name: str = Field(pattern=NAME)
    title: str | None = None
    dataset: Dataset
    runs: int = Field(default=8, ge=1, le=99)
    """Runs (seeds 1001, 1002, ...) per arm."""
    shards: Shards = Shards()
    agent: Named = Choice(name="phases")
    model: Named = Choice(name="mutator")
    arms: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,59}$")], Arm] = Field(
        default={"main": Arm()}, min_length=1
    )
    ablate: Ablation | None = None
    """Instead of `arms`: an arm for each mechanism of the agent that is switched off."""
    pools: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,29}$")], tuple[str, ...]] = Field(
        default_factory=dict
    )
    """Name -> arms whose candidates selection also looks at together: their suites judge each other's patches."""
    sandbox: Literal["bwrap"] = "bwrap"
    """Where commands run. Limits of an agent's sandbox are options of the agent."""
    grader: Literal["native"] = "native"
    selection: Selection = Selection()
    policy: Policy = Policy()
    reuse: dict[Reusable, str] = Field(default_factory=dict)
    """Stage -> path of a finished artifact, or the name of an experiment that has one."""

    @field_validator("name")
    @classmethod
    def _not_the_store(cls, name: str) -> str:
        if name == "store":
            raise ValueError("`artifacts/store` holds all artifacts: choose another name")
        return name

    @model_validator(mode="after")
    def _pools_are_of_arms(self) -> Self:
        for name, members in self.pools.items():
            if name in self.arms:
                raise ValueError(f"pools.{name}: there is an arm of this name; call the pool something else")
            if lost := [arm for arm in members if arm not in self.arms]:
                raise ValueError(f"pools.{name}: there is no arm {lost[0]!r}; arms are {', '.join(self.arms)}")
            if len(set(members)) < max(2, len(members)):
                raise ValueError(f"pools.{name}: name at least two different arms")
        return self

    def runs_of_arm(self) -> list[tuple[str, int]]:
        """(label, seed) of every run: `r01_s1001`, `r02_s1002`, ..."""
        return [(f"r{n:02d}_s{1000 + n}", 1000 + n) for n in range(1, self.runs + 1)]

    def agent_of(self, arm: str) -> Choice:
        return self.agent.merged(self.arms[arm].agent)

    def differences(self) -> dict[str, str]:
        """Arm -> the keys of its agent and model that are otherwise than the first arm's, in one line."""
        flat = {
            arm: {**_flat("agent", self.agent_of(arm).model_dump()), **_flat("model", self.model_of(arm).model_dump())}
            for arm in self.arms
        }
        first = next(iter(flat.values()))
        return {
            arm: ", ".join(
                f"{key}: {_said(keys.get(key))}" for key in {**first, **keys} if keys.get(key) != first.get(key)
            )
            for arm, keys in flat.items()
        }

    def model_of(self, arm: str) -> Choice:
        return self.model.merged(self.arms[arm].model)


def _flat(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {where: value}
    return {key: leaf for name, inner in value.items() for key, leaf in _flat(f"{where}.{name}", inner).items()}


def _said(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return "default" if value is None else text if len(text) <= 60 else "changed"


def load_experiment(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Read an experiment file. `overrides` replace top-level keys, or keys inside `dataset`/`policy` (as mappings).

    Raises ConfigError with file, line, key path and the nearest valid key.
    """
    document = load(path)
    refuse_secrets(document)
    data = dict(document.data)
    for key, value in (overrides or {}).items():
        there = data.get(key, {})
        if not isinstance(value, dict):
            data[key] = value
        elif isinstance(there, dict):  # anything else is a fault of the file, told of below
            data[key] = {**there, **value}
    if data.get("ablate") and "arms" in data:
        raise ConfigError(f"{document.where(('ablate',))}: give `arms` or `ablate`, not both")
    try:
        return Experiment.model_validate_json(json.dumps(with_ablation(data)))
    except ValidationError as error:
        raise explain(error, document, data) from error


def explain(error: ValidationError, document: Document, data: object) -> ConfigError:
    """The first fault of a file (unknown keys first) as one message."""
    faults = error.errors()
    fault = next((item for item in faults if item["type"] == "extra_forbidden"), faults[0])
    at = tuple(piece for piece in fault["loc"] if _exists(data, piece, fault["loc"]) or piece == fault["loc"][-1])
    dotted = ".".join(map(str, at)) or "(top level)"
    where = document.where(at)
    if fault["type"] == "extra_forbidden":
        return _unknown_key(where, dotted, at, len(faults))
    if fault["type"] == "missing":
        return ConfigError(f"{where}: {dotted} is missing")
    got = json.dumps(fault.get("input"), default=str)
    message = fault["msg"].removeprefix("Value error, ")
    shown = f" (got {got[:80]})" if fault["type"] != "value_error" else ""
    return ConfigError(f"{where}: {dotted}: {message[:1].lower() + message[1:]}{shown}")


def _unknown_key(where: str, dotted: str, at: KeyPath, count: int) -> ConfigError:
    valid = valid_keys(at[:-1])
    near = get_close_matches(str(at[-1]), valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    more = f" ({count - 1} more faults follow)" if count > 1 else ""
    return ConfigError(f"{where}: unknown key {dotted!r}{more}", hint=f"{hint}valid here: {', '.join(valid)}")


def valid_keys(at: KeyPath) -> list[str]:
    """The keys a section at this key path knows."""
    schema = json_schema()
    node: dict[str, Any] = schema
    for piece in at:
        node = _resolve(schema, node)
        any_key = [*node.get("patternProperties", {}).values(), node.get("additionalProperties"), node.get("items")]
        found = node.get("properties", {}).get(piece) or next((item for item in any_key if item), None)
        if not isinstance(found, dict):
            return []
        node = found
    node = _resolve(schema, node)
    return sorted(node.get("properties", ()))


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    for option in node.get("anyOf", ()):
        if "$ref" in option:
            node = option
    ref = node.get("$ref")
    return schema["$defs"][ref.rsplit("/", 1)[-1]] if ref else node


def _exists(data: object, piece: object, loc: tuple[object, ...]) -> bool:
    """Whether a piece of pydantic's location is a key or index of the file (not the name of a union's branch)."""
    return isinstance(piece, int) or bool(re.search(rf'"{re.escape(str(piece))}":', json.dumps(data)))


def json_schema() -> dict[str, Any]:
    """The JSON Schema of an experiment file."""
    schema = Experiment.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
