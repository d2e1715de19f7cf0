"""prepare.hidden: gold patches, hidden tests and test lists; what only graders see."""

from collections.abc import Mapping

from uchide.errors import DatasetError, EnvironmentBuildError
from uchide.pipeline.stages.instances import dataset_path, place, public_instances, workshop
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.worker import Work
from uchide.records import Excluded, HiddenInstance, Record

MODELS: Mapping[str, type[Record]] = {"rows": HiddenInstance, "excluded": Excluded}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import datasets

    dataset = datasets.load(work.spec.dataset_name, dataset_path(work))
    public = work.one("public")
    instances = public_instances(public)
    shop = workshop(work)

    async def make(instance_id: str, attempt: int) -> Record:
        where = await place(work, public, instances[instance_id])
        try:
            return await datasets.prepare_hidden(
                dataset, instance_id, where.instance, where.tree, shop, work.reporter.event
            )
        except (DatasetError, EnvironmentBuildError) as error:
            if error.retryable:
                raise
            work.reporter.event(f"{instance_id} takes no part: {error.message}")
            return Excluded(instance_id=instance_id, reason=str(error))

    await each(work, [item for item in work.spec.ids if item in instances], make)
    work.finish()
