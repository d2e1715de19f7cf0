"""The plan of an experiment: every job with its key, and which of them are missing. No Snakemake here."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uchide import agents, llm
from uchide.errors import PlanError
from uchide.pipeline.experiment import Experiment
from uchide.pipeline.jobs import Job, JobMaker, Source
from uchide.pipeline.parts import PARTS, STAGES
from uchide.pipeline.reuse import Given
from uchide.store.manifest import MANIFEST


@dataclass(frozen=True)
class Instances:
    """The instances of an experiment, in the dataset's order."""

    ids: tuple[str, ...]
    dataset_name: str
    dataset_path: str
    """Relative to the checkout where it lies inside."""
    dataset_digest: str


@dataclass(frozen=True)
class Plan:
    """All jobs by name, the stages' own artifacts, and what of it must run."""

    experiment: Experiment
    jobs: Mapping[str, Job]
    tops: Mapping[str, str]
    """Stage -> name of its own artifact's job."""
    targets: tuple[str, ...]
    needed: tuple[str, ...]
    """Missing jobs that the targets need, in the order they were planned."""

    @property
    def pointers(self) -> dict[str, str]:
        """Stage -> artifact name, of the stages planned for."""
        return {self.jobs[target].kind.stage: target for target in self.targets}

    def counts(self) -> dict[str, int]:
        """Part label -> jobs to run."""
        return dict(
            Counter(self.jobs[name].kind.label + (" (reuse)" * bool(self.jobs[name].reuse)) for name in self.needed)
        )


def make_plan(
    experiment: Experiment,
    instances: Instances,
    store: Path,
    codes: Mapping[str, str],
    *,
    salts: Mapping[str, str] | None = None,
    given: Mapping[str, Given] | None = None,
    until: str | None = None,
) -> Plan:
    """Plan an experiment against what the store holds. Raises PlanError for a stage that does not exist."""
    builder = _Builder(experiment, instances, JobMaker(instances.dataset_digest, codes, salts or {}), given or {})
    builder.build()
    present = {entry.name for entry in os.scandir(store)} if store.is_dir() else set()
    jobs = {
        name: replace(job, missing=name not in present or not (store / name / MANIFEST).is_file())
        for name, job in builder.jobs.items()
    }
    wanted = STAGES[: STAGES.index(checked_stage(until)) + 1] if until else STAGES
    targets = tuple(builder.tops[stage] for stage in wanted)
    return Plan(experiment, jobs, builder.tops, targets, _needed(jobs, targets))


def checked_stage(stage: str) -> str:
    """`stage`, if there is such a stage. Raises PlanError."""
    if stage not in STAGES:
        raise PlanError(f"there is no stage {stage!r}", hint=f"stages, in order: {', '.join(STAGES)}")
    return stage


def _needed(jobs: Mapping[str, Job], targets: Iterable[str]) -> tuple[str, ...]:
    """Walk back from the targets through what is missing."""
    need: set[str] = set()
    todo = [name for name in targets if jobs[name].missing]
    while todo:
        name = todo.pop()
        if name not in need:
            need.add(name)
            sources = (source for many in jobs[name].inputs.values() for source in many)
            todo += [source.job for source in sources if jobs[source.job].missing]
    return tuple(name for name in jobs if name in need)


class _Builder:
    """Lays the stages out in order. `sources[stage]` are the parts a later stage may read."""

    def __init__(
        self, experiment: Experiment, instances: Instances, maker: JobMaker, given: Mapping[str, Given]
    ) -> None:
        self.experiment = experiment
        self.instances = instances
        self.maker = maker
        self.given = given
        self.jobs: dict[str, Job] = {}
        self.tops: dict[str, str] = {}
        self.sources: dict[str, list[Source]] = {}

    def add(
        self,
        label: str,
        config: Mapping[str, Any],
        inputs: Mapping[str, Iterable[Source]],
        ids: tuple[str, ...],
        **more: Any,  # noqa: ANN401 (passed on to JobMaker.make)
    ) -> Source:
        fixed = {role: tuple(many) for role, many in inputs.items()}
        job = self.maker.make(PARTS[label], config, fixed, ids, **more)
        self.jobs[job.name] = job
        if job.kind.kind == "":
            self.tops[job.kind.stage] = job.name
        else:
            self.sources.setdefault(job.kind.stage, []).append(job.source)
        return job.source

    def build(self) -> None:
        for stage in ("prepare", "test", "bench"):
            if stage in self.given:
                self._reuse(stage, self.given[stage])
            else:
                getattr(self, f"_{stage}")()
        self._tts()
        self._report()

    def _reuse(self, stage: str, given: Given) -> None:
        job = given.job(self.instances.ids)
        self.jobs[job.name] = job
        self.tops[stage] = job.name
        self.sources[stage] = given.sources(job.name)

    def part(self, stage: str, part: str) -> Source:
        return next(source for source in self.sources[stage] if source.part == part)

    def _prepare(self) -> None:
        data = self.instances
        config = {
            "dataset": data.dataset_name,
            "digest": data.dataset_digest,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        }
        public = self.add("prepare-public", config, {}, data.ids)
        hidden = self.add("prepare-hidden", config, {"public": [public]}, data.ids)
        self.add("prepare", {}, {"parts": [public, hidden]}, data.ids)

    def _test(self) -> None:
        exp = self.experiment
        config = {"grader": exp.grader, "sandbox": exp.sandbox}
        inputs = {"public": [self.part("prepare", "public")], "hidden": [self.part("prepare", "hidden")]}
        self.add("test", config, inputs, self.instances.ids)

    def _bench(self) -> None:
        exp, ids = self.experiment, self.instances.ids
        public, hidden = self.part("prepare", "public"), self.part("prepare", "hidden")
        test = self.jobs[self.tops["test"]].source
        grader = {"grader": exp.grader, "sandbox": exp.sandbox}
        parts: list[Source] = []
        for arm in exp.arms:
            agent, model = exp.agent_of(arm).model_dump(), exp.model_of(arm).model_dump()
            config = {"agent": agent, "model": llm.keyed(model), "sandbox": exp.sandbox}
            for run, seed in exp.runs_of_arm():
                for start in range(0, len(ids), exp.shards.size):
                    where = f"{arm}.{run}.s{start // exp.shards.size:03d}"
                    some = ids[start : start + exp.shards.size]
                    how: dict[str, Any] = {"where": where, "sharded": True}
                    arm_config = {**config, "arm": arm, "run": run, "seed": seed}
                    read = {"public": [public], "test": [test]}
                    if agents.reads_test_lists(agent):
                        read["hidden"] = [hidden]
                    made = self.add("bench-generate", arm_config, read, some, settings={"model": model}, **how)
                    inputs = {"generate": [made], "public": [public], "hidden": [hidden]}
                    parts += [made, self.add("bench-grade", grader, inputs, some, **how)]
        self.add("bench", {}, {"parts": parts}, ids)

    def _arms(self) -> dict[str, dict[str, list[Source]]]:
        """Arm -> generate/grade -> parts, of what bench made or of what was given."""
        arms: dict[str, dict[str, list[Source]]] = {}
        for source in self.sources["bench"]:
            kind, arm, *_ = source.part.split(".")
            arms.setdefault(arm, {}).setdefault(kind, []).append(source)
        return arms

    def _tts(self) -> None:
        exp, ids = self.experiment, self.instances.ids
        chosen = exp.selection.model_dump()
        matrix_config = {"matrix": chosen.pop("matrix"), "sandbox": exp.sandbox}
        public = self.part("prepare", "public")
        parts: list[Source] = []
        arms = self._arms()
        pools = {name: self._pool(name, arms) for name in exp.pools}
        for arm, bench in {**arms, **pools}.items():
            which: dict[str, Any] = {"arm": arm, **({"pool": True} if arm in pools else {})}
            inputs = {"public": [public], "generate": bench["generate"]}
            matrix = self.add("tts-matrix", {**matrix_config, **which}, inputs, ids, where=arm)
            read = {"matrix": [matrix], "generate": bench["generate"]}
            pick = self.add("tts-pick", {**chosen, **which}, read, ids, where=arm)
            grade = self.add(
                "tts-grade", which if arm in pools else {}, {"pick": [pick], "grade": bench["grade"]}, ids, where=arm
            )
            parts += [matrix, pick, grade]
        self.add("tts", {}, {"parts": parts}, ids)

    def _pool(self, name: str, arms: Mapping[str, dict[str, list[Source]]]) -> dict[str, list[Source]]:
        """What the arms of a pool made, together."""
        members = self.experiment.pools[name]
        if lost := [arm for arm in members if arm not in arms]:
            raise PlanError(f"pools.{name}: the bench that is reused has no arm {lost[0]!r}")
        return {kind: [part for arm in members for part in arms[arm][kind]] for kind in ("generate", "grade")}

    def _report(self) -> None:
        exp = self.experiment
        config: dict[str, Any] = {
            "experiment": exp.name,
            "title": exp.title,
            "arms": {arm: [exp.agent_of(arm).name, exp.model_of(arm).name] for arm in exp.arms},
        }
        if len(exp.arms) > 1:
            config["differs"] = exp.differences()
        if exp.pools:
            config["pools"] = exp.model_dump()["pools"]
        inputs = {stage: [self.jobs[name].source] for stage, name in self.tops.items()}
        self.add("report", config, inputs, self.instances.ids)
