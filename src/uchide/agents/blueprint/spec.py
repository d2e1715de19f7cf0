"""The declaration of the blueprint agent: the YAML file, with an experiment's options over it, as validated models."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from uchide.actions import FORMATS
from uchide.agents.blueprint.toolset import TOOLS
from uchide.agents.limits import Count, RolloutLimits, SamplingSpec, SandboxLimits, StrictModel
from uchide.agents.overlay import overlay
from uchide.errors import ConfigError
from uchide.tools import TOOL_FILES

BUILT_IN = Path(__file__).parent / "blueprint.yaml"
TALKING = frozenset({"REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT"})
"""Nodes that hold a conversation."""


class Compression(StrictModel):
    """When a conversation is longer than `after` turns, a summary takes the place of all but its last `keep`."""

    after: Count = Field(default=20, ge=2)
    keep: Count = Field(default=6, ge=0)

    @model_validator(mode="after")
    def _shrinks(self) -> Self:
        if self.keep >= self.after:
            raise ValueError("compression.keep must be smaller than compression.after")
        return self


class NodeSpec(StrictModel):
    """One node."""

    edges: dict[str, str]
    """What the node decided -> the next node."""
    prompt: str = ""
    """Template of the opening message, in the prompts folder."""
    turns: Count = Field(default=0, ge=0)
    """Turns per visit; 0 for a node without a conversation."""
    tools: tuple[str, ...] = ()
    """Tools of the model."""
    scripts: tuple[str, ...] = ()
    """Sandbox tools that its prompt names, to be run with `bash`."""
    nudges: dict[int, str] = Field(default_factory=dict)
    """Turn -> template that is added to what the model reads once so many turns were taken."""
    compression: Compression | None = None


class TestRuns(StrictModel):
    """How the agent's own test runs are bounded."""

    __test__ = False

    regression: Count = Field(default=300, ge=0)
    """At most so many existing tests are watched (the dataset's list is taken whole)."""
    repro: Count = Field(default=40, ge=1)
    """At most so many tests of the agent's own."""
    seconds: float = Field(default=900.0, gt=0)
    """Wall time of one run of the regression tests."""
    per_test_s: float = Field(default=120.0, gt=0)


class BlueprintSpec(StrictModel):
    """The whole runtime."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    action_format: str = "native"
    attempts: Count = Field(default=5, ge=1)
    """How often IMPLEMENT may be entered."""
    dataset_p2p: bool = False
    """Watch the dataset's PASS_TO_PASS tests instead of what passes on the base tree. No leaderboard allows that."""
    limits: RolloutLimits = RolloutLimits()
    sandbox: SandboxLimits = SandboxLimits()
    sampling: SamplingSpec = SamplingSpec(temperature=0.0)
    tests: TestRuns = TestRuns()
    nodes: dict[str, NodeSpec]

    @property
    def scripts(self) -> tuple[str, ...]:
        """Sandbox tools of all nodes, and what running tests needs."""
        return tuple(dict.fromkeys(["run_tests", *(name for node in self.nodes.values() for name in node.scripts)]))

    def edges(self) -> tuple[tuple[str, str, str], ...]:
        """(node, what it decided, next node), in the order of the file."""
        return tuple((name, exit_, to) for name, node in self.nodes.items() for exit_, to in node.edges.items())

    @model_validator(mode="after")
    def _is_the_graph(self) -> Self:
        """Code takes the edges, so an experiment can neither add nor turn one."""
        known = _built_in()["nodes"]
        for name in (*self.nodes, *known):
            if name not in known or name not in self.nodes:
                raise ValueError(
                    f"nodes: {name!r} is {'missing' if name in known else 'unknown'}; known: {_list(known)}"
                )
            if self.nodes[name].edges != known[name]["edges"]:
                raise ValueError(f"nodes.{name}.edges: the code of the nodes takes these edges, they cannot be changed")
        return self

    @model_validator(mode="after")
    def _can_talk(self) -> Self:
        form = FORMATS.get(self.action_format)
        if form is None or not form.any_tool:
            fit = [name for name, known in FORMATS.items() if known.any_tool]
            what = "knows no tool but bash" if form else "is unknown"
            raise ValueError(f"action_format: {self.action_format!r} {what}; this agent takes {_list(fit)}")
        for name, node in self.nodes.items():
            where = f"nodes.{name}"
            parts = (node.turns, node.prompt, node.tools)
            if not all(parts) if name in TALKING else any((*parts, node.scripts, node.nudges, node.compression)):
                need = (
                    "needs turns, prompt and tools" if name in TALKING else "holds no conversation, it has only edges"
                )
                raise ValueError(f"{where}: {need}")
            for tool in node.tools:
                if tool not in TOOLS:
                    raise ValueError(f"{where}.tools: unknown tool {tool!r}, known: {_list(TOOLS)}")
            for script in node.scripts:
                if script not in TOOL_FILES:
                    raise ValueError(f"{where}.scripts: unknown script {script!r}, known: {_list(TOOL_FILES)}")
        return self


def _list(names: object) -> str:
    return ", ".join(names) if isinstance(names, list | dict | tuple) else str(names)


@cache
def _built_in() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(BUILT_IN.read_text("utf-8"))
    return data


def load_spec(options: Mapping[str, Any] | None = None) -> BlueprintSpec:
    """The built-in declaration with `options` (same shape) laid over it key by key. Raises ConfigError."""
    try:
        return BlueprintSpec.model_validate(overlay(_built_in(), options or {}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in ("agent", *first["loc"]))
        raise ConfigError(
            f"{place}: {first['msg'].removeprefix('Value error, ')}", hint="Keys and defaults: docs/blueprint-agent.md."
        ) from error
