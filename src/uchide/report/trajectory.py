"""A trajectory as the page shows it: turns by phase, cut to a number of characters; the artifact keeps the whole."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from uchide.agents.trajectory import EndRecord, PhaseRecord, TrajectoryRecord, TurnRecord, read
from uchide.errors import ReportError
from uchide.report.visible import clip, one_line

CLIP_ACTION, CLIP_OBSERVATION = 600, 900
OBSERVATION = re.compile(r"\s*<returncode>[^<]*</returncode>\s*<output>\n?(?P<output>.*)</output>\s*", re.DOTALL)
"""An observation as the agent saw it; the page shows what is inside."""

LEAST_PER_TURN = 320
"""Characters below which a turn is left out rather than cut further, its markup included."""


@dataclass(frozen=True)
class TurnView:
    """One turn. `returncode` is a number, why the action was killed, or empty when there was none."""

    n: int
    thought: str
    action: str
    observation: str
    returncode: str
    problem: str
    """A format error, or products that were missing at COMPLETE; empty when all went well."""


@dataclass
class PhaseView:
    """One visit of a phase."""

    name: str
    visit: int
    turns: list[TurnView] = field(default_factory=list)
    n_turns: int = 0
    format_errors: int = 0
    outcome: str = ""

    @property
    def left_out(self) -> int:
        return self.n_turns - len(self.turns)


@dataclass(frozen=True)
class TrajectoryView:
    """The phases of one trajectory in order."""

    phases: tuple[PhaseView, ...]
    notice: str = ""

    @property
    def cut(self) -> bool:
        return any(phase.left_out for phase in self.phases)


def load_trajectory(path: Path, budget: int) -> TrajectoryView:
    """The trajectory at `path` in about `budget` characters.

    Raises ReportError when it is missing, StoreError when it is no trajectory; one without its end becomes a notice.
    """
    if not path.is_file():
        raise ReportError(f"{path}: the trajectory is missing", hint="run `uchide artifacts verify`")
    last: list[TrajectoryRecord] = []

    def watched() -> Iterator[TrajectoryRecord]:
        for record in read(path):
            last[:] = [record]
            yield record

    phases = view_phases(watched(), budget)
    whole = bool(last) and isinstance(last[0], EndRecord)
    return TrajectoryView(phases=phases, notice="" if whole else "The trajectory stops without an end record.")


def view_phases(records: Iterable[TrajectoryRecord], budget: int) -> tuple[PhaseView, ...]:
    """The phases in about `budget` characters: long texts lose their middle, long phases their middle turns."""
    phases = group(records)
    total = sum(phase.n_turns for phase in phases)
    if total * LEAST_PER_TURN > budget and phases:
        keep = max(2, budget // LEAST_PER_TURN // len(phases))
        for phase in phases:
            if phase.n_turns > keep:
                phase.turns = phase.turns[: (keep + 1) // 2] + phase.turns[phase.n_turns - keep // 2 :]
    share = budget // max(1, sum(len(phase.turns) for phase in phases))
    for phase in phases:
        phase.turns = [fit(turn, max(share, LEAST_PER_TURN)) for turn in phase.turns]
    return tuple(phases)


def group(records: Iterable[TrajectoryRecord]) -> list[PhaseView]:
    phases: list[PhaseView] = []
    for record in records:
        if isinstance(record, TurnRecord):
            if not phases or (phases[-1].name, phases[-1].visit) != (record.phase, record.visit):
                phases.append(PhaseView(name=record.phase, visit=record.visit))
            phases[-1].turns.append(to_turn(record))
            phases[-1].n_turns += 1
            phases[-1].format_errors += record.format_error is not None
        elif isinstance(record, PhaseRecord) and phases and phases[-1].name == record.phase:
            phases[-1].outcome = f"{record.exit} → {record.next}" if record.next else record.exit
    return phases


def to_turn(record: TurnRecord) -> TurnView:
    seen = record.observation or ""
    inside = OBSERVATION.fullmatch(seen)
    problems = [record.format_error] if record.format_error else []
    problems += [f"refused, missing: {', '.join(record.rejected)}"] if record.rejected else []
    return TurnView(
        n=record.n,
        thought=clip(thought(record.reply), CLIP_ACTION // 2),
        action=clip(record.action or (record.reply if record.format_error else record.token), CLIP_ACTION),
        observation=clip((inside["output"] if inside else seen).rstrip("\n"), CLIP_OBSERVATION),
        returncode="" if record.returncode is None else str(record.returncode),
        problem=one_line("; ".join(problems), CLIP_ACTION),
    )


def thought(reply: str) -> str:
    """The text between `THOUGHT:` and `FINAL_ANSWER:`; empty when the reply has no such part."""
    _, marker, rest = reply.partition("THOUGHT:")
    return rest.partition("FINAL_ANSWER:")[0].strip() if marker else ""


def fit(turn: TurnView, limit: int) -> TurnView:
    if len(turn.thought) + len(turn.action) + len(turn.observation) <= limit:
        return turn
    said, did = clip(turn.thought, limit // 5), clip(turn.action, limit * 2 // 5)
    return TurnView(
        n=turn.n,
        thought=said,
        action=did,
        observation=clip(turn.observation, max(limit - len(said) - len(did), limit * 2 // 5)),
        returncode=turn.returncode,
        problem=turn.problem,
    )
