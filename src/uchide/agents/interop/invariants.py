"""What holds of every trajectory of ours, checked record by record (docs/trajectory.md lists it)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from uchide.agents.trajectory import (
    CallRecord,
    ContextRecord,
    EndRecord,
    HeaderRecord,
    PhaseRecord,
    TrajectoryRecord,
    TurnRecord,
)
from uchide.records import Usage

DIFF = "diff"
"""A product that is a change of the tree: no record shows whether it is there."""
LISTED = 5000
"""Files of the share that an archive lists at most; beyond, a missing one says nothing."""
_MARK = "UCHIDE-HEADER "


@dataclass(frozen=True)
class Violation:
    """What is wrong, at which record (counted from 1)."""

    record: int
    message: str


@dataclass
class _Visit:
    """A phase between its first record and its last."""

    phase: str
    visit: int
    turns: int = 0
    due: tuple[str, ...] = ()
    has_tokens: bool = False
    """Whether its turns begin with a workflow token."""
    steps: int = 0
    """Of its workflow: its tokens are W0 to W{steps-1}."""
    limit: int = 0
    """Turns that it may have, without the one for the memo; 0: not told."""
    leaving: str = ""
    """COMPLETE (not refused) or GIVEUP, once one came."""
    leaving_record: int = 0
    after: int = 0
    """Turns since."""


@dataclass
class _State:
    header: HeaderRecord | None = None
    visit: _Visit | None = None
    last: PhaseRecord | None = None
    visits: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    format_errors: int = 0
    cut_short: bool = False
    """Whether the last turn has no action only because a limit came first, which is no error of the model's."""
    usages: list[Usage] = field(default_factory=list)
    ended: bool = False


def violations(records: Iterable[TrajectoryRecord]) -> Iterator[Violation]:
    """Everything that is wrong with these records, in order. A missing end is not: a rollout may be killed."""
    state = _State()
    number = 0
    for number, record in enumerate(records, start=1):
        for message in _check(state, record, number):
            yield Violation(number, message)
    if number and state.header is None:
        yield Violation(1, "there is no header record")


def _check(state: _State, record: TrajectoryRecord, number: int) -> Iterator[str]:
    if state.ended:
        yield f"a {record.kind} record follows the end record"
        return
    if isinstance(record, HeaderRecord) != (number == 1):
        yield "the first record is no header" if number == 1 else "another header record"
    if isinstance(record, HeaderRecord):
        state.header = record
    elif isinstance(record, ContextRecord):
        yield from _context(state, record)
    elif isinstance(record, CallRecord):
        yield from _call(state, record)
    elif isinstance(record, TurnRecord):
        yield from _turn(state, record, number)
    elif isinstance(record, PhaseRecord):
        yield from _phase(state, record)
    else:
        yield from _end(state, record)


def _context(state: _State, record: ContextRecord) -> Iterator[str]:
    yield from _enter(state, record.phase, record.visit)
    if state.visit is None:
        return
    if not record.messages:
        yield "a conversation of no message"
    for message in record.messages:
        if message.role == "system" and message.content.startswith(_MARK):
            told = _told(message.content)
            state.visit.due = tuple(name for name in told.get("due", ()) if isinstance(name, str))
            state.visit.has_tokens = "steps" in told
            state.visit.steps, state.visit.limit = _count(told, "steps"), _count(told, "turns")
            if told.get("phase", record.phase) != record.phase:
                yield f"the context of {record.phase} has the prompt of {told['phase']}"


def _told(content: str) -> dict[str, Any]:
    try:
        told = json.loads(content.partition("\n")[0].removeprefix(_MARK))
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _is_declared(phase: str, edges: tuple[tuple[str, str, str], ...]) -> bool:
    return not edges or any(phase in (start, to) for start, _, to in edges)


def _count(told: dict[str, Any], name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) else 0


def _enter(state: _State, phase: str, visit: int) -> Iterator[str]:
    """A record of this visit comes: it is the one in progress, or begins where the last exit led."""
    if state.visit is not None and (state.visit.phase, state.visit.visit) == (phase, visit):
        return
    if state.visit is not None:
        yield f"{phase} (visit {visit}) begins before {state.visit.phase} (visit {state.visit.visit}) was left"
    elif state.last is not None and state.last.next != phase:
        led = state.last.next or "nowhere"
        yield f"{phase} is entered, but {state.last.phase} led to {led}"
    elif state.last is None and state.header and not _is_declared(phase, state.header.edges):
        yield f"the rollout begins in {phase}, which no declared edge names"
    if visit != state.visits[phase] + 1:
        yield f"visit {visit} of {phase} follows {state.visits[phase]} of it"
    state.visit = _Visit(phase, visit)


def _call(state: _State, record: CallRecord) -> Iterator[str]:
    state.usages.append(record.usage)
    yield from _enter(state, record.phase, record.visit)
    if record.turn != state.turns + 1:
        yield f"a {record.role} call names turn {record.turn}, but the next turn is {state.turns + 1}"


def _turn(state: _State, record: TurnRecord, number: int) -> Iterator[str]:
    yield from _enter(state, record.phase, record.visit)
    if record.n != state.turns + 1:
        yield f"turn {record.n} follows turn {state.turns}"
    state.turns = record.n
    state.format_errors += record.format_error is not None
    state.cut_short = record.format_error is not None and record.observation is None
    state.usages.append(record.usage)
    visit = state.visit
    yield from _outcome(record, has_tokens=visit is not None and visit.has_tokens)
    if visit is None:
        return
    visit.turns += 1
    if visit.has_tokens:
        yield from _token(visit, record, number)
    if record.token == "COMPLETE" and (odd := sorted(set(record.rejected) - set(visit.due))) and visit.has_tokens:
        yield f"COMPLETE is refused for {odd[0]}, which is no product of {visit.phase}"


def _token(visit: _Visit, record: TurnRecord, number: int) -> Iterator[str]:
    """A token of the workflow; the one that leaves is followed by the turn for the memo at most."""
    token = record.token
    is_step = token[:1] == "W" and token[1:].isdecimal() and int(token[1:]) < visit.steps
    if token and not is_step and token not in ("COMPLETE", "GIVEUP", "HANDOVER"):
        yield f"{token} is no token of {visit.phase}, whose workflow has {visit.steps} steps"
    if visit.leaving:
        visit.after += 1
        if visit.after == 2:
            refused = "neither refused nor " if visit.leaving == "COMPLETE" else "not "
            yield f"{visit.leaving} at record {visit.leaving_record} was {refused}the end of {visit.phase}"
        return
    is_memo = visit.limit and visit.turns > visit.limit  # asked for once the turns are over, whatever its token
    if not is_memo and (token == "GIVEUP" or (token == "COMPLETE" and not record.rejected)):
        visit.leaving, visit.leaving_record = token, number


def _outcome(record: TurnRecord, *, has_tokens: bool) -> Iterator[str]:
    """One action, or one format error, or a token (in an agent without tokens: an answer in words)."""
    if record.format_error is not None:
        extra = [name for name in ("action", "token", "tool", "rejected") if getattr(record, name)]
        if extra:
            yield f"a format error together with {' and '.join(extra)}"
        return
    if has_tokens and not record.token and not record.tool_calls:  # a silent API call is a step without a token
        yield "neither a token nor a format error"
    if has_tokens and record.token[:1] == "W" and record.action is None:
        yield f"{record.token} without an action"
    if (record.action is None) != (not record.tool):
        yield "an action without its tool" if record.action is not None else f"the tool {record.tool} without an action"
    if record.returncode is not None and record.action is None:
        yield "a return code without an action"
    if record.rejected and has_tokens and record.token not in ("COMPLETE", "HANDOVER"):
        yield f"{record.token or 'a turn'} was refused, which only COMPLETE and HANDOVER can be"


def _phase(state: _State, record: PhaseRecord) -> Iterator[str]:
    yield from _enter(state, record.phase, record.visit)
    visit, state.visit = state.visit, None
    state.visits[record.phase] = record.visit
    state.last = record
    edges = state.header.edges if state.header else ()
    # A phase that is out of turns goes where giving up leads, unless it has an edge of its own for that.
    exits = (record.exit, "giveup") if record.exit == "turn_limit" else (record.exit,)
    if edges and record.next and not any((record.phase, exit_, record.next) in edges for exit_ in exits):
        yield f"{record.phase} was left by {record.exit} to {record.next}, which is no declared edge"
    if record.exit == "ended" and record.next is not None:
        yield f"the rollout ended in {record.phase}, and went on to {record.next}"
    if visit is None:
        return
    if record.turns != visit.turns:
        yield f"{record.phase} counts {record.turns} turns, and has {visit.turns}"
    if visit.has_tokens:
        yield from _leaving(visit, record)
    if record.exit == "complete" and visit.has_tokens and len(record.share) < LISTED:
        there = {file.path for file in record.share}
        for product in visit.due:
            if product != DIFF and product not in there:
                yield f"{record.phase} completed without its product {product}"


def _leaving(visit: _Visit, record: PhaseRecord) -> Iterator[str]:
    """The exit is the one that the turns led to, unless a limit ended the rollout first."""
    taken = {"COMPLETE": "complete", "GIVEUP": "giveup"}.get(visit.leaving, "turn_limit")
    if record.exit == "ended":
        return
    if visit.leaving and record.exit != taken:
        yield f"{visit.phase} was left by {record.exit} after {visit.leaving} at record {visit.leaving_record}"
    elif record.exit != taken:
        missing = "a COMPLETE that was not refused" if record.exit == "complete" else "the turn that says so"
        yield f"{visit.phase} was left by {record.exit} without {missing}"
    elif taken == "turn_limit" and visit.limit and visit.turns < visit.limit:
        yield f"{visit.phase} was left by turn_limit after {visit.turns} of its {visit.limit} turns"


def _end(state: _State, record: EndRecord) -> Iterator[str]:
    state.ended = True
    # A failure of ours may come between a reply and its record.
    lost = 1 if record.exit_status == "infra" else 0
    if not state.turns <= record.turns <= state.turns + lost:
        yield f"the end counts {record.turns} turns, and there are {state.turns}"
    least = state.format_errors - state.cut_short
    if not least <= record.format_errors <= state.format_errors + lost:
        yield f"the end counts {record.format_errors} format errors, and there are {state.format_errors}"
    for name in ("prompt_tokens", "completion_tokens"):
        told, summed = getattr(record.usage, name), sum(getattr(usage, name) for usage in state.usages)
        if told < summed or (told > summed and not lost):
            yield f"the end counts {told} {name}, and the records sum up to {summed}"
    if not lost:
        yield from _last_exit(state, record)


def _last_exit(state: _State, record: EndRecord) -> Iterator[str]:
    if state.visit is not None:
        yield f"{state.visit.phase} was never left"
    last, edges = state.last, state.header.edges if state.header else ()
    is_completed = record.exit_status == "completed"
    if last is None:
        if is_completed and edges:
            yield "completed, but no phase was left"
        return
    if is_completed and last.exit == "ended":
        yield f"completed, but a limit ended the rollout in {last.phase}"
    if last.next is not None:
        yield f"the rollout ended, but {last.phase} led to {last.next}"
    elif is_completed and any(edge[:2] == (last.phase, last.exit) for edge in edges):
        yield f"completed, but {last.exit} of {last.phase} has a declared way on"
