"""Skills: short procedures that a phase's prompt teaches where its phase and tools allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Skill:
    """One procedure. `phases` is "*" for all of them; the phase FREE counts as every phase."""

    title: str
    phases: tuple[str, ...] | Literal["*"]
    tools: tuple[str, ...]
    text: str

    def applies(self, phase: str, tools: Sequence[str]) -> bool:
        """Whether a prompt of `phase` with these active tools shows it."""
        return (self.phases == "*" or phase in (*self.phases, "FREE")) and set(self.tools) <= set(tools)
