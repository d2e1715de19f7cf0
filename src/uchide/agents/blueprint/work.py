"""What every node is handed beside the state: the session, the spec, the prompts, and where records go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uchide.agents.blueprint.prompts import Prompts
from uchide.agents.blueprint.spec import BlueprintSpec
from uchide.agents.session import Session
from uchide.agents.trajectory import TrajectoryRecord


@dataclass(frozen=True)
class Work:
    """One rollout's means. `record` writes to the trajectory and keeps the record for the checkpoint."""

    session: Session
    spec: BlueprintSpec
    prompts: Prompts
    record: Callable[[TrajectoryRecord], None]


@dataclass(frozen=True)
class NodeResult:
    """Where to go next and why (`decided`, an exit of the declaration), with the fields of the state that change.
    `memo` says in a line what came of the node."""

    next_node: str
    decided: str
    state_update: dict[str, Any]
    memo: str = ""
