"""The nodes by name. A node is deterministic code, perhaps around a conversation; its code decides what comes next."""

from collections.abc import Awaitable, Callable

from uchide.agents.blueprint.nodes import end, gather, implement, load, reproduce, verify
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.work import NodeResult, Work

Node = Callable[[AgentState, Work], Awaitable[NodeResult]]

NODES: dict[str, Node] = {
    "LOAD_TASK": load.run,
    "REPRODUCE_ISSUE": reproduce.run,
    "GATHER_CONTEXT": gather.run,
    "IMPLEMENT": implement.run,
    "VERIFY": verify.run,
    "END": end.run,
}

__all__ = ["NODES", "Node"]
