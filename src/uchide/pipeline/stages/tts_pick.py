"""tts.pick: what every configured selector picks from the matrices. Reads no verdict."""

from collections.abc import Mapping

from uchide.pipeline.stages.tts_candidates import candidates_by_instance
from uchide.pipeline.worker import Work
from uchide.records import Matrix, Pick, Record

MODELS: Mapping[str, type[Record]] = {"rows": Pick}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    from uchide.selection import SelectionConfig, pick

    options = {key: value for key, value in work.spec.config.items() if key not in {"arm", "pool"}}
    config = SelectionConfig.model_validate(options)
    candidates = candidates_by_instance(work)
    matrices = list(work.one("matrix").rows(Matrix))
    for done, matrix in enumerate(matrices, start=1):
        for choice in pick(matrix, candidates[matrix.instance_id], config):
            name = f"{choice.instance_id}.{choice.selector}"
            if name not in work.part.done():
                work.part.append(choice, id=name)
        work.reporter.counts(done=done, infra=0, total=len(matrices))
    work.finish()
