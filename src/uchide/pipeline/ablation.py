"""`ablate`: arms made of the switches of an agent's mechanisms."""

import json
from itertools import combinations
from typing import Any, Literal

from pydantic import Field, ValidationError

from uchide.pipeline.section import Section


class Ablation(Section):
    """Arms made of switches: one with all of them on, and what each is worth."""

    switches: tuple[Literal["phases", "formatter", "handover", "skills", "tools"], ...] = Field(min_length=1)
    """Keys of the agent's `mechanisms`, e.g. `skills`."""
    matrix: bool = False
    """All combinations instead of each switch off alone: 2^n arms."""

    def arms(self, agent: str) -> dict[str, Any]:
        """Name (`full`, `no_skills`, `no_skills_tools`, ...) -> arm."""
        most = len(self.switches) if self.matrix else 1
        off = [some for size in range(most + 1) for some in combinations(self.switches, size)]
        return {
            f"no_{'_'.join(some)}" if some else "full": {
                "agent": {"name": agent, "mechanisms": {switch: switch not in some for switch in self.switches}}
            }
            for some in off
        }


def with_ablation(data: dict[str, Any]) -> dict[str, Any]:
    """The same with the arms that `ablate` stands for. A wrong `ablate` is left for the model to explain."""
    try:
        ablation = Ablation.model_validate_json(json.dumps(data.get("ablate")))
    except ValidationError:
        return data
    agent = data.get("agent") or "phases"
    return {**data, "arms": ablation.arms(agent.get("name", "phases") if isinstance(agent, dict) else agent)}
