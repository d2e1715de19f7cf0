"""The blueprint agent: a graph of nodes whose code decides the way, with a conversation inside some of them."""

from uchide.agents.blueprint.agent import create
from uchide.agents.blueprint.spec import BlueprintSpec, load_spec

__all__ = ["BlueprintSpec", "create", "load_spec"]
