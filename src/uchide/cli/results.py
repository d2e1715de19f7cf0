"""What `uchide show` and `uchide status` print: results as far as they are there, read from rows of any age."""

import re
from collections.abc import Iterator
from pathlib import Path

from uchide.cli.display import describe
from uchide.cli.text import plural, table
from uchide.errors import ConfigError
from uchide.paths import Root
from uchide.pipeline.freeze import load_frozen
from uchide.pipeline.plan import Plan
from uchide.pipeline.planner import Options, plan_experiment
from uchide.pipeline.progress import Watcher
from uchide.records import Candidate, Graded, PickGraded
from uchide.report.console import console_text
from uchide.report.summary import Summary
from uchide.store import read_rows
from uchide.store.atomic import read_json
from uchide.store.lease import holder, is_alive
from uchide.store.manifest import R, load_record

RUN = re.compile(r"\.(r\d+_s\d+)\.")
"""The run in the name of an artifact."""


def summary_text(root: Root, plan: Plan) -> str:
    """The headline table of a finished experiment. Its pointer may lead to other results: of an edit since undone."""
    folder, pointer = root.store / plan.tops["report"], root.report(plan.experiment.name)
    shown = pointer if pointer.resolve() == folder.resolve() else folder
    return console_text(load_record(folder / "summary.json", Summary), shown / "index.html")


def overview_text(root: Root, path: Path) -> str:
    """The headline table, or how far the experiment is; then the same of its latest `run -i`."""
    plan = plan_experiment(root, path).plan
    shown = _plan_text(root, plan)
    if not (part := _subset(root, plan.experiment.name)):
        return shown
    subset = plan_experiment(root, path, part).plan
    return f"{shown}\n\nlatest run of a part ({plural(len(part.ids), 'instance')}):\n{_plan_text(root, subset)}"


def _plan_text(root: Root, plan: Plan) -> str:
    if not plan.needed:
        return summary_text(root, plan)
    rows = []
    for label in dict.fromkeys(job.kind.label for job in plan.jobs.values()):
        jobs = [job for job in plan.jobs.values() if job.kind.label == label]
        done = sum(not job.missing for job in jobs)
        ids = sum(len(job.ids) for job in jobs)
        there = sum(_row_count(root.store / job.name) for job in jobs)
        rows.append([label, f"{done}/{len(jobs)}", f"{there}/{ids}" if there else ""])
    return table(rows, head=["part", "jobs", "rows"])


def _row_count(folder: Path) -> int:
    path = folder / "rows.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def instance_text(root: Root, path: Path, instance_id: str) -> str:
    """Candidates, verdicts and picks of one instance."""
    plan = plan_holding(root, path, instance_id)
    verdicts = {row.candidate_id: row.verdict for row in _rows(root, plan, "tts-grade", "grade", Graded)}
    rows = []
    for row in sorted(candidates(root, plan), key=lambda row: (row.arm, row.run)):
        if row.instance_id != instance_id:
            continue
        verdict = verdicts.get(row.candidate_id)
        patch = f"{row.patch_sha256[:12]} {plural(len(row.patch), 'char')}" if row.patch else "none"
        rows.append([row.candidate_id, row.exit_status, verdict.category if verdict else "", patch, f"{row.turns}"])
    picks = [
        [pick.pick.arm, pick.pick.selector, pick.pick.run or "abstains", pick.verdict.category if pick.verdict else ""]
        for pick in _own_rows(root, plan, "tts-grade", PickGraded)
        if pick.pick.instance_id == instance_id
    ]
    if not rows:
        return f"{instance_id}: no candidate yet"
    text = table(rows, head=["candidate", "ended", "verdict", "patch", "turns"])
    return text + ("\n\n" + table(picks, head=["arm", "selector", "picked", "verdict"]) if picks else "")


def trajectory_path(root: Root, path: Path, instance_id: str, run: str) -> Path:
    """The trajectory file of one candidate: `run` is a run (`r01`), `ARM.RUN`, or a candidate's id.

    Raises ConfigError unless it names exactly one.
    """
    plan = plan_holding(root, path, instance_id)
    files = {row.candidate_id: file for row, file in _trajectories(root, plan) if row.instance_id == instance_id}
    found = [name for name in files if not run or _is_run(name, run)]
    if len(found) == 1:
        return files[found[0]]
    known = ", ".join(sorted(found or files)) or "none yet"
    what = "names no candidate" if not found else "names several candidates"
    raise ConfigError(f"--run {run or '(none)'}: {what} of {instance_id}", hint=f"there are: {known}")


def _is_run(candidate_id: str, run: str) -> bool:
    arm, name, _ = candidate_id.split(".", 2)
    return run in (candidate_id, name, name.partition("_")[0], f"{arm}.{name}", f"{arm}.{name.partition('_')[0]}")


def _trajectories(root: Root, plan: Plan) -> Iterator[tuple[Candidate, Path]]:
    for folder in _folders(root, plan, "tts-matrix", "generate"):
        for row in read_rows(folder / "rows.jsonl", Candidate):
            yield row, folder / row.trajectory


def plan_holding(root: Root, path: Path, instance_id: str) -> Plan:
    """The plan whose candidates of this instance are there: the experiment's own, else that of its latest `run -i`.

    Raises ConfigError where neither knows the instance.
    """
    plan = plan_experiment(root, path).plan
    if _has(root, plan, instance_id):
        return plan
    part = _subset(root, plan.experiment.name)
    if part and instance_id in part.ids:
        subset = plan_experiment(root, path, part).plan
        if _has(root, subset, instance_id) or plan.jobs[plan.tops["prepare"]].missing:
            return subset
    known = plan.jobs[plan.tops["prepare"]].ids
    if instance_id not in known:
        raise ConfigError(
            f"{plan.experiment.name} has no instance {instance_id!r}", hint=f"it has {', '.join(known[:5])}, ..."
        )
    return plan


def _has(root: Root, plan: Plan, instance_id: str) -> bool:
    return any(row.instance_id == instance_id for row in candidates(root, plan))


def _subset(root: Root, experiment: str) -> Options | None:
    """What the latest run of a part of the experiment was asked for; None where there was no such run."""
    latest = max(root.runs(f"{experiment}.subset").glob("*/jobs"), default=None)  # folders are named by their time
    jobs = [read_json(path) for path in latest.glob("*.json")] if latest else []
    ids = max((tuple(job["ids"]) for job in jobs), key=len, default=())
    inputs = [name for job in jobs for many in job["inputs"].values() for name in many]
    runs = {found[1] for name in inputs for found in RUN.finditer(name)}
    return Options(ids=ids, runs=len(runs) or None) if ids else None


def candidates(root: Root, plan: Plan) -> Iterator[Candidate]:
    """Every candidate on disk, of finished parts and of those still growing, made or reused."""
    return _rows(root, plan, "tts-matrix", "generate", Candidate)


def _rows(root: Root, plan: Plan, label: str, role: str, model: type[R]) -> Iterator[R]:
    """Rows of the artifacts that jobs of this label read in this role."""
    for folder in _folders(root, plan, label, role):
        yield from read_rows(folder / "rows.jsonl", model)


def _folders(root: Root, plan: Plan, label: str, role: str) -> Iterator[Path]:
    for job in plan.jobs.values():
        if job.kind.label == label:
            yield from (root.store / source.path for source in job.inputs[role])


def _own_rows(root: Root, plan: Plan, label: str, model: type[R]) -> Iterator[R]:
    for name, job in plan.jobs.items():
        if job.kind.label == label:
            yield from read_rows(root.store / name / "rows.jsonl", model)


def status_text(root: Root) -> str:
    """One block per experiment that a live process runs."""
    blocks = []
    for path in sorted(root.artifacts.glob("*/lease.json")):
        owner = holder(path) or {}
        if not is_alive(owner):
            continue
        blocks.append(f"{path.parent.name}: process {owner.get('pid')} on {owner.get('host')}")
        blocks += [f"  {line}" for line in _run_lines(path.parent / "runs")]
    return "\n".join(blocks) or "nothing is running"


def _run_lines(runs: Path) -> Iterator[str]:
    import time

    latest = max((path for path in runs.glob("*/plan.json")), default=None)
    if latest is None:
        return
    frozen = load_frozen(latest)
    watcher = Watcher(latest.parent / "progress", {name: (job.label, 0) for name, job in frozen.jobs.items()})
    watcher.poll()
    for stage in watcher.stages():
        if text := describe(stage, time.monotonic()):
            yield text
