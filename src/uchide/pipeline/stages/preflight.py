"""test: per instance, the gold patch resolves it and the unpatched tree does not."""

from collections.abc import Mapping

from uchide.errors import StageError
from uchide.pipeline.stages.instances import excluded, hidden_instances, place, public_instances
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.worker import Work
from uchide.records import Preflight, Record

MODELS: Mapping[str, type[Record]] = {"rows": Preflight}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import grading, sandboxes
    from uchide.paths import cache_dir

    public = work.one("public")
    instances, hidden = public_instances(public), hidden_instances(work.one("hidden"))
    provider = sandboxes.provider(work.spec.config["sandbox"])
    grader = grading.create(work.spec.config["grader"], provider, cache_dir(), notice=work.reporter.event)

    async def make(instance_id: str, attempt: int) -> Record:
        where = await place(work, public, instances[instance_id])
        row = await grading.preflight(
            where.instance,
            hidden[instance_id],
            grader,
            tree=where.tree,
            environment=where.environment,
            python_home=where.python_home,
        )
        if not row.ok:
            work.reporter.event(f"{instance_id} fails preflight: {row.reason}")
        return row

    def is_infra(row: Record) -> bool:
        verdicts = (row.gold, row.empty) if isinstance(row, Preflight) else ()
        return any(verdict is not None and verdict.category == "infra" for verdict in verdicts)

    await each(work, [item for item in work.spec.ids if item in hidden], make, is_infra=is_infra)
    _enforce(work, excluded(public, work.one("hidden")))
    work.finish()


def _enforce(work: Work, unprepared: Mapping[str, str]) -> None:
    """Raises StageError when no instance is left, or when policy says that each must be fit for use."""
    rows = [row for row in work.part.rows().values() if isinstance(row, Preflight)]
    bad = {**unprepared, **{row.instance_id: row.reason for row in rows if not row.ok}}
    if all(not row.ok for row in rows):
        reasons = "; ".join(f"{item}: {reason}" for item, reason in list(bad.items())[:3])
        raise StageError(f"no instance of {work.spec.dataset_name} can be used here. {reasons}", hint="uchide doctor")
    if bad and work.spec.preflight == "fatal":
        listed = "; ".join(f"{item}: {reason}" for item, reason in bad.items())
        raise StageError(f"policy.preflight is fatal, and {len(bad)} of the instances cannot be used: {listed}")
