"""prepare.public: issues, base trees and environments; what agents and selection may see."""

from collections.abc import Mapping

from uchide.errors import DatasetError, EnvironmentBuildError, StageError
from uchide.pipeline.stages.instances import dataset_path, workshop
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.worker import Work
from uchide.records import Excluded, PublicInstance, Record

MODELS: Mapping[str, type[Record]] = {"rows": PublicInstance, "excluded": Excluded}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import datasets

    dataset = datasets.load(work.spec.dataset_name, dataset_path(work))
    if dataset.digest != work.spec.config["digest"]:
        raise StageError(f"dataset {dataset.name} changed since the plan was made", hint="run the same command again")
    shop = workshop(work)
    trees = work.part.file("trees/x").parent

    async def make(instance_id: str, attempt: int) -> Record:
        try:
            return await datasets.prepare_public(dataset, instance_id, trees, shop, work.reporter.event)
        except (DatasetError, EnvironmentBuildError) as error:
            if error.retryable:
                raise
            work.reporter.event(f"{instance_id} takes no part: {error.message}")
            return Excluded(instance_id=instance_id, reason=str(error))

    await each(work, work.spec.ids, make)
    work.finish()
