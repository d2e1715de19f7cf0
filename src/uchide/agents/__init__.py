"""Agents by name. An agent turns an issue into a candidate; a rollout is one attempt."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from uchide.agents import blueprint, phases
from uchide.errors import ConfigError
from uchide.protocols import Agent

_AGENTS: dict[str, Callable[[Mapping[str, Any]], Agent]] = {
    "phases": phases.create,
    "blueprint": blueprint.create,
}


def names() -> tuple[str, ...]:
    """Names that `create` knows."""
    return tuple(_AGENTS)


def create(config: Mapping[str, Any]) -> Agent:
    """The agent that `config["name"]` names (`phases` unless given); its other keys are that agent's options.

    Raises ConfigError for an unknown name or option.
    """
    options = dict(config)
    name = options.pop("name", "phases")
    if name not in _AGENTS:
        close = difflib.get_close_matches(str(name), _AGENTS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known agents: {', '.join(_AGENTS)}."
        raise ConfigError(f"agent.name: there is no agent {name!r}", hint=hint)
    return _AGENTS[name](options)


def reads_test_lists(config: Mapping[str, Any]) -> bool:
    """Whether this configuration hands the dataset's own PASS_TO_PASS list to the agent (not leaderboard-valid)."""
    return config.get("dataset_p2p") is True


def with_files(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """`config` with the files it names, relative to `root`, replaced by what they hold. Raises ConfigError."""
    return phases.with_files(dict(config), root) if config.get("name", "phases") == "phases" else dict(config)
