"""tts.grade: the verdict of every pick, looked up by the digest of exactly its patch."""

from collections.abc import Mapping, Sequence

from uchide.errors import StageError
from uchide.pipeline.stages.tts_candidates import pooled
from uchide.pipeline.worker import Work
from uchide.records import Graded, Pick, PickGraded, Record, Verdict

MODELS: Mapping[str, type[Record]] = {"rows": PickGraded}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    graded: dict[tuple[str, str], list[Graded]] = {}
    for row in (row for part in work.inputs["grade"] for row in part.rows(Graded)):
        row = pooled(row, work.spec.config["arm"]) if work.spec.config.get("pool") else row
        graded.setdefault((row.instance_id, row.verdict.patch_sha256), []).append(row)
    picks = list(work.one("pick").rows(Pick))
    for done, pick in enumerate(picks, start=1):
        name = f"{pick.instance_id}.{pick.selector}"
        if name not in work.part.done():
            work.part.append(PickGraded(pick=pick, verdict=verdict_of(pick, graded)), id=name)
        work.reporter.counts(done=done, infra=0, total=len(picks))
    work.finish()


def verdict_of(pick: Pick, graded: Mapping[tuple[str, str], Sequence[Graded]]) -> Verdict | None:
    """None when the selector abstained. Of runs that made the same patch the picked one's verdict counts, unless
    infrastructure failed there and not elsewhere. Raises StageError when the picked patch was never graded."""
    if pick.patch_sha256 is None:
        return None
    rows = graded.get((pick.instance_id, pick.patch_sha256))
    if not rows:
        raise StageError(
            f"{pick.instance_id}: {pick.selector} picked patch {pick.patch_sha256[:12]}, which bench did not grade"
        )
    return min(rows, key=lambda row: (row.verdict.category == "infra", row.run != pick.run)).verdict
