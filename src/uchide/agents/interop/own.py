"""Our own trajectory files beside the others, together with the patch that the artifact around them holds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from uchide.agents.interop import fields
from uchide.agents.interop.model import Act, Imported, Step
from uchide.agents.trajectory import ContextRecord, EndRecord, HeaderRecord, TrajectoryRecord, TurnRecord, read
from uchide.errors import StoreError
from uchide.records import Candidate, digest
from uchide.store import read_rows

ROWS = "rows.jsonl"


@dataclass(frozen=True)
class Rollout:
    """Everything a file and its artifact say of one rollout. `patch` is None outside of an artifact."""

    header: HeaderRecord
    records: tuple[TrajectoryRecord, ...]
    end: EndRecord | None
    patch: str | None
    notes: tuple[str, ...]

    @property
    def turns(self) -> Sequence[TurnRecord]:
        return [record for record in self.records if isinstance(record, TurnRecord)]


def load(path: Path) -> Rollout:
    """A file as `uchide.agents.trajectory.read` gives it. Raises StoreError."""
    notes: list[str] = []
    records = tuple(read(path, lambda notice: notes.append(notice.removeprefix(f"{path}: "))))
    header = records[0] if records else None
    if not isinstance(header, HeaderRecord):
        raise StoreError(f"{path} holds no whole record", hint="the rollout was killed before it began")
    end = next((record for record in reversed(records) if isinstance(record, EndRecord)), None)
    if end is None:
        notes.append("it has no end record: the rollout was killed, or still runs")
    return Rollout(header, records, end, _patch(path, header.candidate_id, end), tuple(notes))


def _patch(path: Path, candidate_id: str, end: EndRecord | None) -> str | None:
    """The patch of the artifact's row, if the rollout ended with just that one."""
    rows = path.parent.parent / ROWS
    if end is None or end.patch_sha256 is None or not rows.is_file():
        return "" if end is not None and end.patch_sha256 == digest("") else None
    for row in read_rows(rows, Candidate):
        if row.candidate_id == candidate_id and row.patch_sha256 == end.patch_sha256:
            return row.patch
    return None


def imported(rollout: Rollout) -> Imported:
    """A rollout as the model that foreign files are read into."""
    header, end = rollout.header, rollout.end
    return Imported(
        source="uchide",
        instance_id=header.instance_id,
        model=header.model,
        agent=header.agent,
        opening=_opening(rollout.records),
        steps=tuple(_steps(rollout.records)),
        exit_status=end.exit_status if end else "",
        patch=rollout.patch,
        patch_sha256=end.patch_sha256 or "" if end else "",
        declared=end.usage if end else None,
        notes=rollout.notes,
    )


def _opening(records: Iterable[TrajectoryRecord]) -> tuple[tuple[str, str], ...]:
    first = next((record for record in records if isinstance(record, ContextRecord)), None)
    return _said(first) if first else ()


def _said(context: ContextRecord) -> tuple[tuple[str, str], ...]:
    return tuple((message.role, message.content) for message in context.messages)


def _steps(records: Iterable[TrajectoryRecord]) -> Iterator[Step]:
    is_first = True
    before: tuple[tuple[str, str], ...] = ()
    for record in records:
        if isinstance(record, ContextRecord):
            before, is_first = () if is_first else before + _said(record), False
        elif isinstance(record, TurnRecord):
            yield replace(_step(record), before=before)
            before = ()


def _step(turn: TurnRecord) -> Step:
    problems = [turn.format_error or "", f"refused, missing: {', '.join(turn.rejected)}" if turn.rejected else ""]
    acts = () if turn.action is None else (Act(turn.tool or "bash", turn.action),)
    thought, _ = fields.written(turn.reply)
    return Step(
        thought=turn.reply if turn.format_error else thought,
        acts=acts,
        observation=turn.observation or "",
        usage=turn.usage,
        phase=turn.phase,
        visit=turn.visit,
        token=turn.token,
        returncode="" if turn.returncode is None else str(turn.returncode),
        problem="; ".join(filter(None, problems)),
    )
