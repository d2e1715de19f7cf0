"""The candidates that tts parts work on: of an arm, or of the arms of a pool."""

from typing import TypeVar

from uchide.pipeline.worker import Work
from uchide.records import Candidate, Graded

Row = TypeVar("Row", Candidate, Graded)


def candidates_by_instance(work: Work) -> dict[str, list[Candidate]]:
    """Instance id -> its candidates in run order, from the generate parts."""
    found: dict[str, list[Candidate]] = {}
    rows = [row for part in work.inputs["generate"] for row in part.rows(Candidate)]
    if work.spec.config.get("pool"):
        rows = [pooled(row, work.spec.config["arm"]) for row in rows]
    for row in sorted(rows, key=lambda row: row.run):
        found.setdefault(row.instance_id, []).append(row)
    return found


def pooled(row: Row, pool: str) -> Row:
    """The row as a pool knows it: arms number their runs alike, so a run is called `<arm>.<run>`."""
    return row.model_copy(update={"arm": pool, "run": row.candidate_id.removesuffix(f".{row.instance_id}")})
