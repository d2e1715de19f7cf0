"""The candidates that an arm's tts parts work on."""

from uchide.pipeline.worker import Work
from uchide.records import Candidate


def candidates_by_instance(work: Work) -> dict[str, list[Candidate]]:
    """Instance id -> its candidates in run order, from the generate parts of one arm."""
    found: dict[str, list[Candidate]] = {}
    rows = [row for part in work.inputs["generate"] for row in part.rows(Candidate)]
    for row in sorted(rows, key=lambda row: row.run):
        found.setdefault(row.instance_id, []).append(row)
    return found
