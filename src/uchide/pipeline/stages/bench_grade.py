"""bench.grade: a verdict for every candidate, linked to it by the digest of its patch."""

from collections.abc import Mapping

from uchide.pipeline.stages.instances import hidden_instances, place, public_instances
from uchide.pipeline.stages.rows import each, run_async
from uchide.pipeline.worker import Work
from uchide.protocols import Grader, GradeRequest
from uchide.records import Candidate, Graded, Record, Verdict

MODELS: Mapping[str, type[Record]] = {"rows": Graded}
VOLATILE_FILES: tuple[str, ...] = ()


def run(work: Work) -> None:
    run_async(_run(work))


async def _run(work: Work) -> None:
    from uchide import grading, sandboxes
    from uchide.paths import cache_dir

    public = work.one("public")
    instances, hidden = public_instances(public), hidden_instances(work.one("hidden"))
    candidates = {row.instance_id: row for row in work.one("generate").rows(Candidate)}
    provider = sandboxes.provider(work.spec.config["sandbox"])
    grader = grading.create(work.spec.config["grader"], provider, cache_dir(), notice=work.reporter.event)

    async def make(instance_id: str, attempt: int) -> Record:
        candidate, instance = candidates[instance_id], instances[instance_id]
        if candidate.exit_status == "infra":
            return link(candidate, no_statement(candidate, grader, instance.environment.key))
        where = await place(work, public, instance)
        request = GradeRequest(
            instance, hidden[instance_id], candidate.patch, where.tree, where.environment, where.python_home
        )
        return link(candidate, await grader.grade(request))

    def is_infra(row: Record) -> bool:
        """The grader's own failures; a candidate that infrastructure failed was counted when it was made."""
        if not isinstance(row, Graded) or row.verdict.category != "infra":
            return False
        return candidates[row.instance_id].exit_status != "infra"

    await each(work, [item for item in work.spec.ids if item in candidates], make, is_infra=is_infra)
    work.finish()


def no_statement(candidate: Candidate, grader: Grader, environment: str) -> Verdict:
    return Verdict(
        instance_id=candidate.instance_id,
        patch_sha256=candidate.patch_sha256,
        grader=grader.name,
        grader_version=grader.version,
        environment=environment,
        category="infra",
        message=f"the rollout failed for reasons of infrastructure: {candidate.error}",
    )


def link(candidate: Candidate, verdict: Verdict) -> Graded:
    return Graded(
        candidate_id=candidate.candidate_id,
        instance_id=candidate.instance_id,
        arm=candidate.arm,
        run=candidate.run,
        verdict=verdict,
    )
