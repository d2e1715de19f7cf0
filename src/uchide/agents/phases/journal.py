"""The last turns of a visit in short, for a summary that needs no model."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

STEPS = 16
_CHARS = 400


@dataclass(frozen=True)
class Step:
    """One turn: its token, its thought and command, cut, and the return code."""

    token: str
    thought: str
    action: str
    returncode: int | str | None


@dataclass
class Journal:
    """Bounded, so that it costs every turn the same."""

    _steps: deque[Step] = field(default_factory=lambda: deque(maxlen=STEPS))

    def add(self, token: str, thought: str, action: str | None, returncode: int | str | None) -> None:
        self._steps.append(Step(token, _cut(thought), _cut(action or ""), returncode))

    @property
    def steps(self) -> Sequence[Step]:
        """Oldest first."""
        return tuple(self._steps)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]} [...]"
