"""A trajectory as the page shows it: turns by phase, cut to a number of characters; the artifact keeps the whole."""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from uchide.errors import ReportError
from uchide.report.visible import clip

Reader = Callable[[Path], Iterable[Mapping[str, Any]]]
"""Yields the records of one trajectory file in order, as plain mappings."""

CLIP_ACTION, CLIP_OBSERVATION = 600, 900
OBSERVATION = re.compile(
    r"\s*<returncode>(?P<returncode>[^<]*)</returncode>\s*<output>\n?(?P<output>.*)</output>\s*", re.DOTALL
)
"""An observation as the agent saw it; the page shows what is inside."""

LEAST_PER_TURN = 320
"""Characters below which a turn is left out rather than cut further, its markup included."""


@dataclass(frozen=True)
class TurnView:
    """One turn. `returncode` is what the observation says: a number, `timeout`, or empty."""

    n: int
    thought: str
    action: str
    observation: str
    returncode: str
    format_error: str


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

    @property
    def cut(self) -> bool:
        return any(phase.left_out for phase in self.phases)


def read_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The records of a zstd JSON-lines file; a last line that was only half written is dropped."""
    try:
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as data:
            for line in io.TextIOWrapper(data, encoding="utf-8", newline="\n"):
                if line.endswith("\n"):
                    yield json.loads(line)
    except FileNotFoundError:
        raise ReportError(f"{path}: the trajectory is missing", hint="run `uchide artifacts verify`") from None
    except (zstandard.ZstdError, ValueError) as error:
        raise ReportError(f"{path}: not a trajectory: {error}", hint="run `uchide artifacts verify`") from error


def view_trajectory(records: Iterable[Mapping[str, Any]], budget: int) -> TrajectoryView:
    """The trajectory in about `budget` characters: long texts lose their middle, long phases their middle turns."""
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
    return TrajectoryView(phases=tuple(phases))


def group(records: Iterable[Mapping[str, Any]]) -> list[PhaseView]:
    phases: list[PhaseView] = []
    for record in records:
        name, visit = str(record.get("phase", "")), int(record.get("visit") or 1)
        if record.get("kind") == "turn":
            if not phases or (phases[-1].name, phases[-1].visit) != (name, visit):
                phases.append(PhaseView(name=name, visit=visit))
            turn = to_turn(record, phases[-1].n_turns + 1)
            phases[-1].turns.append(turn)
            phases[-1].n_turns += 1
            phases[-1].format_errors += bool(turn.format_error)
        elif record.get("kind") == "phase" and phases and phases[-1].name == name:
            phases[-1].outcome = str(record.get("outcome") or record.get("token") or "")
    return phases


def to_turn(record: Mapping[str, Any], position: int) -> TurnView:
    reply = str(record.get("reply") or "")
    error = record.get("format_error")
    observation = OBSERVATION.fullmatch(str(record.get("observation") or ""))
    seen = (observation["output"] if observation else str(record.get("observation") or "")).rstrip("\n")
    returncode = record.get("returncode", observation["returncode"] if observation else None)
    return TurnView(
        n=int(record.get("n") or position),
        thought=clip(thought(reply), CLIP_ACTION // 2),
        action=clip(str(record.get("action") or ("" if not error else reply)), CLIP_ACTION),
        observation=clip(seen, CLIP_OBSERVATION),
        returncode="" if returncode is None else str(returncode),
        format_error="format error" if error is True else str(error or ""),
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
        format_error=turn.format_error,
    )
