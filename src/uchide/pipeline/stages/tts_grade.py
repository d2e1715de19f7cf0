"""tts.grade: the verdict of every pick, looked up by the digest of exactly its patch."""

from collections.abc import Mapping

from uchide.errors import StageError
from uchide.pipeline.worker import Work
from uchide.records import Graded, Pick, PickGraded, Record, Verdict

MODELS: Mapping[str, type[Record]] = {"rows": PickGraded}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    graded = [row for part in work.inputs["grade"] for row in part.rows(Graded)]
    known = {(row.instance_id, row.verdict.patch_sha256): row.verdict for row in graded}
    picks = list(work.one("pick").rows(Pick))
    for done, pick in enumerate(picks, start=1):
        name = f"{pick.instance_id}.{pick.selector}"
        if name not in work.part.done():
            work.part.append(PickGraded(pick=pick, verdict=verdict_of(pick, known)), id=name)
        work.reporter.counts(done=done, infra=0, total=len(picks))
    work.finish()


def verdict_of(pick: Pick, known: Mapping[tuple[str, str], Verdict]) -> Verdict | None:
    """None when the selector abstained. Raises StageError when the picked patch was never graded."""
    if pick.patch_sha256 is None:
        return None
    verdict = known.get((pick.instance_id, pick.patch_sha256))
    if verdict is None:
        raise StageError(
            f"{pick.instance_id}: {pick.selector} picked patch {pick.patch_sha256[:12]}, which bench did not grade"
        )
    return verdict
