"""The phases, nodes and roles that requests of an agent may come from: what a model's `for` may name."""

import difflib
from collections.abc import Iterable

from uchide.errors import ConfigError
from uchide.protocols import Agent

ROLES = ("agent", "planner", "formatter", "summary", "discrepancies")
"""Who asks within a phase or node."""


def places_of(agent: Agent) -> frozenset[str]:
    """The agent's phases or nodes; empty for an agent that has no graph."""
    edges = getattr(getattr(agent, "spec", None), "edges", None)
    return (
        frozenset(name for source, _, target in edges() for name in (source, target) if name) if edges else frozenset()
    )


def refuse_unknown_places(keys: Iterable[str], places: Iterable[str]) -> None:
    """Raises ConfigError for a key of a model's `for` that is no phase, no role and no PHASE.role."""
    known = sorted(places)
    for key in keys:
        place, _, role = key.partition(".")
        if (role in ROLES and place in known) or (not role and (place in known or place in ROLES)):
            continue
        near = difflib.get_close_matches(place if role else key, [*known, *ROLES], n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(
            f"model.for.{key}: no agent of this experiment has such a phase, node or role",
            hint=f"{guess}phases and nodes: {', '.join(known)}; roles: {', '.join(ROLES)}",
        )
