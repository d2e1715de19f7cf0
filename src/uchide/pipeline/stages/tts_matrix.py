"""tts.matrix: per instance, every distinct patch of an arm against every admitted suite."""

from collections.abc import Mapping

from uchide.pipeline.stages.instances import place, public_instances
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.stages.tts_candidates import candidates_by_instance
from uchide.pipeline.worker import Work
from uchide.records import Matrix, Record

MODELS: Mapping[str, type[Record]] = {"rows": Matrix}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import sandboxes
    from uchide.selection.config import MatrixSettings
    from uchide.selection.matrix import build

    config = work.spec.config
    public = work.one("public")
    instances, candidates = public_instances(public), candidates_by_instance(work)
    settings = MatrixSettings.model_validate(config["matrix"])
    provider = sandboxes.provider(config["sandbox"])

    async def make(instance_id: str, attempt: int) -> Record:
        where = await place(work, public, instances[instance_id])
        return await build(
            where.instance,
            config["arm"],
            candidates[instance_id],
            where.tree,
            where.environment,
            where.python_home,
            provider,
            settings,
        )

    def is_infra(row: Record) -> bool:
        return isinstance(row, Matrix) and bool(row.error)

    await each(work, [item for item in work.spec.ids if item in candidates], make, is_infra=is_infra)
    work.finish()
