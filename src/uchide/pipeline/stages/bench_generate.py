"""bench.generate: one rollout per instance of a shard. Reads what agents may see, nothing else."""

from collections.abc import Mapping
from pathlib import Path

from uchide.errors import UchideError
from uchide.paths import scratch_dir
from uchide.pipeline.stages.instances import Place, hidden_instances, place, public_instances
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.worker import Work
from uchide.protocols import Task
from uchide.records import Candidate, Preflight, Record, Suite, Usage, digest

MODELS: Mapping[str, type[Record]] = {"rows": Candidate}
VOLATILE_FILES: tuple[str, ...] = ("trajectories/*",)


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import agents, llm, sandboxes

    config = work.spec.config
    public = work.one("public")
    instances = public_instances(public)
    fit = {row.instance_id for row in work.one("test").rows(Preflight) if row.ok}
    ledger = llm.Ledger(Path(work.spec.ledger), work.spec.name, llm.SpendCaps.model_validate(work.spec.spend))
    agent, model = agents.create(config["agent"]), llm.create(config["model"], ledger, Path(work.spec.root))
    provider = sandboxes.provider(config["sandbox"])
    hidden = hidden_instances(work.one("hidden")) if "hidden" in work.inputs else {}
    lists = {name: row.pass_to_pass for name, row in hidden.items()}

    async def make(instance_id: str, attempt: int) -> Record:
        where = await place(work, public, instances[instance_id])
        candidate = await agent.rollout(_task(work, where, lists.get(instance_id)), model, provider)
        return candidate.model_copy(update={"attempts": attempt})

    def failed(instance_id: str, error: UchideError, attempt: int) -> Record:
        return infra_candidate(work, instance_id, error, attempt)

    def is_infra(row: Record) -> bool:
        return isinstance(row, Candidate) and row.exit_status == "infra"

    try:
        await each(work, [item for item in work.spec.ids if item in fit], make, failed=failed, is_infra=is_infra)
    finally:
        await model.aclose()
        ledger.close()
    for instance_id in work.spec.ids:
        _scratch(work, instance_id).unlink(missing_ok=True)
    work.finish()


def _trajectory(work: Work, instance_id: str) -> Path:
    config = work.spec.config
    return work.part.file(trajectory_path(f"{config['arm']}.{config['run']}.{instance_id}"))


def _scratch(work: Work, instance_id: str) -> Path:
    """What a killed rollout goes on from; kept until all rows of the job are there."""
    return scratch_dir() / f"{digest(str(_trajectory(work, instance_id)))[:32]}.sqlite"


def _task(work: Work, where: Place, regression: tuple[str, ...] | None) -> Task:
    config = work.spec.config
    trajectory = _trajectory(work, where.instance.instance_id)
    trajectory.unlink(missing_ok=True)
    return Task(
        config["arm"],
        config["run"],
        config["seed"],
        where.instance,
        where.tree,
        where.environment,
        where.python_home,
        trajectory,
        regression=regression,
        scratch=_scratch(work, where.instance.instance_id),
    )


def trajectory_path(candidate_id: str) -> str:
    return f"trajectories/{candidate_id}.jsonl.zst"


def infra_candidate(work: Work, instance_id: str, error: UchideError, attempt: int) -> Candidate:
    """The row of a rollout that infrastructure failed: no statement about the agent."""
    config = work.spec.config
    name = f"{config['arm']}.{config['run']}.{instance_id}"
    path = work.part.file(trajectory_path(name))
    if not path.exists():
        path.write_bytes(b"")
    suite = Suite(instance_id=instance_id)
    return Candidate(
        candidate_id=name,
        arm=config["arm"],
        run=config["run"],
        seed=config["seed"],
        instance_id=instance_id,
        exit_status="infra",
        error=f"{type(error).__name__}: {error.message}"[:2000],
        patch="",
        patch_sha256=digest(""),
        suite=suite,
        suite_sha256=suite.sha256,
        warnings=(),
        turns=0,
        usage=Usage(),
        trajectory=trajectory_path(name),
        trajectory_sha256=digest(path.read_bytes()),
        attempts=attempt,
    )
