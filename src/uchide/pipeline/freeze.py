"""Freezing a plan: a run folder with `plan.json`, one file per job, and a copy of the code that every job runs with."""

import os
import shutil
import sys
from collections import Counter
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

from uchide.errors import ConfigError
from uchide.paths import Root
from uchide.pipeline.jobs import Job
from uchide.pipeline.plan import Instances, Plan
from uchide.pipeline.spec import FrozenJob, FrozenPlan, JobSpec
from uchide.redact import scrub
from uchide.store.atomic import read_json, refused, write_bytes, write_json

KEPT_RUNS = 20
"""Run folders kept per experiment."""


def freeze(plan: Plan, instances: Instances, root: Root, experiment_file: Path, cores: int) -> tuple[Path, FrozenPlan]:
    """Write the run folder of a plan with missing jobs; returns its path and what Snakemake gets.

    Raises StoreError when the disk refuses.
    """
    name = plan.experiment.name
    run = root.runs(name) / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
    try:
        _copy_code(root.path, run / "code")
    except OSError as error:
        raise refused(run, error) from error
    threads = _threads(plan, cores)
    for job_name in plan.needed:
        spec = _spec(plan, plan.jobs[job_name], instances, root, run, threads[job_name])
        write_bytes(run / "jobs" / f"{job_name}.json", spec.model_dump_json().encode())
    text = scrub(experiment_file.read_text(encoding="utf-8"))
    write_bytes(run / "experiment.yaml", text.encode())
    frozen = FrozenPlan(
        experiment=name,
        run=str(run),
        store=str(root.store),
        code=str(run / "code"),
        python=sys.executable,
        cores=cores,
        targets=tuple(target for target in plan.targets if target in threads),
        jobs={name: _frozen(plan, plan.jobs[name], threads) for name in plan.needed},
        pointers=plan.pointers,
    )
    write_json(run / "plan.json", frozen.model_dump(mode="json"))
    try:
        for folder in ("done", "logs", "progress"):
            (run / folder).mkdir(exist_ok=True)
        root.store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused(run, error) from error
    _forget_old_runs(root.runs(name), keep=run)
    return run, frozen


def load_frozen(path: Path) -> FrozenPlan:
    """The frozen plan of a run folder. Raises StoreError."""
    return FrozenPlan.model_validate(read_json(path))


def _copy_code(root: Path, to: Path) -> None:
    for folder in ("src/uchide", "stages", "workflow"):
        shutil.copytree(root / folder, to / folder)  # with compiled files: times are kept, so they stay valid
    shutil.copy(root / "Snakefile", to / "Snakefile")


def _threads(plan: Plan, cores: int) -> dict[str, int]:
    """How many rows each job works on at once: jobs of a kind share the cores, a lone job gets them all."""
    many = Counter(plan.jobs[name].kind.label for name in plan.needed)
    processes = min(os.cpu_count() or 1, cores)
    threads = {}
    for name in plan.needed:
        job = plan.jobs[name]
        rowless = not job.kind.parallel or job.reuse
        share = ceil(cores / min(many[job.kind.label], processes))
        threads[name] = 1 if rowless else max(1, min(share, len(job.ids)))
    return threads


def _frozen(plan: Plan, job: Job, threads: dict[str, int]) -> FrozenJob:
    before = {source.job for many in job.inputs.values() for source in many if plan.jobs[source.job].missing}
    label = "reuse" if job.reuse else job.kind.label
    return FrozenJob(label=label, inputs=tuple(sorted(before)), threads=threads[job.name])


def _spec(plan: Plan, job: Job, instances: Instances, root: Root, run: Path, threads: int) -> JobSpec:
    policy = plan.experiment.policy
    return JobSpec(
        label="reuse" if job.reuse else job.kind.label,
        identity=job.identity,
        code=job.code,
        config={**job.config, **job.settings},
        inputs={role: tuple(source.path for source in many) for role, many in job.inputs.items()},
        ids=job.ids,
        reuse=job.reuse,
        concurrency=threads,
        max_infra=policy.max_infra,
        preflight=policy.preflight,
        spend=policy.spend.model_dump(exclude_none=True),
        ledger=str(root.spend(plan.experiment.name)),
        dataset_name=instances.dataset_name,
        dataset_path=instances.dataset_path,
        root=str(root.path),
        store=str(root.store),
        run=str(run),
    )


def _forget_old_runs(runs: Path, keep: Path) -> None:
    for old in sorted(runs.iterdir())[:-KEPT_RUNS]:
        if old != keep and old.is_dir():
            shutil.rmtree(old, ignore_errors=True)


def core_count(asked: int | None) -> int:
    """Rows worked on at once: what was asked for, else the CPUs this process may use. Raises ConfigError below 1."""
    if asked is not None and asked < 1:
        raise ConfigError(f"a concurrency of {asked} does no work", hint="give 1 or more")
    return asked or len(os.sched_getaffinity(0))
