"""What a model does in a row: the same call with the same result, or calls that fail alike.

It is told so, not stopped.
"""

from dataclasses import dataclass

from uchide.actions import Call
from uchide.agents.blueprint.toolset import ToolResult
from uchide.agents.limits import RolloutLimits


@dataclass
class Habits:
    """Counts of one conversation."""

    limits: RolloutLimits
    repeats: int = 0
    failures: int = 0
    _call: Call | None = None
    _result: ToolResult | None = None

    def seen(self, call: Call, result: ToolResult) -> None:
        """One more call, and how it ended."""
        self.repeats = self.repeats + 1 if (call, result) == (self._call, self._result) else 1
        self.failures = (
            0 if result.code == 0 else self.failures + 1 if self._result and result.code == self._result.code else 1
        )
        self._call, self._result = call, result

    @property
    def repeating(self) -> bool:
        return self.repeats >= self.limits.repeats

    @property
    def failing(self) -> bool:
        return self.failures >= self.limits.failures
