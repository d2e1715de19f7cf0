"""From an experiment file to a plan: reads the file, the dataset, the code, earlier salts, and what is to be reused."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uchide.errors import ConfigError, PlanError
from uchide.paths import Root
from uchide.pipeline.drift import Drift, code_digests, drift, outdated
from uchide.pipeline.experiment import Choice, Experiment, load_experiment
from uchide.pipeline.parts import PARTS, STAGES, parts_of
from uchide.pipeline.plan import Instances, Plan, make_plan
from uchide.pipeline.reuse import Given, find_given
from uchide.pipeline.secretcheck import holds_secret
from uchide.store.atomic import read_json, write_json


@dataclass(frozen=True)
class Options:
    """What the command line changes of an experiment file."""

    until: str | None = None
    start: str | None = None
    """`--from`: run this stage (or part, `tts-pick`) and what follows again."""
    ids: tuple[str, ...] = ()
    repo: str | None = None
    limit: int | None = None
    runs: int | None = None
    concurrency: int | None = None

    @property
    def is_subset(self) -> bool:
        return bool(self.ids or self.repo or self.limit)

    def overrides(self) -> dict[str, Any]:
        dataset = {
            key: value for key, value in (("ids", list(self.ids)), ("repo", self.repo), ("limit", self.limit)) if value
        }
        policy = {"concurrency": self.concurrency} if self.concurrency is not None else {}
        runs = {"runs": self.runs} if self.runs is not None else {}
        return {**({"dataset": dataset} if dataset else {}), **({"policy": policy} if policy else {}), **runs}


@dataclass(frozen=True)
class Planned:
    """A plan with everything it was made from."""

    plan: Plan
    instances: Instances
    drifts: Sequence[Drift]
    salts: Mapping[str, str] = field(default_factory=dict)
    """To be kept when the plan is run; the same as before unless `--from` was given."""


def plan_experiment(root: Root, path: Path, options: Options | None = None) -> Planned:
    """Plan an experiment file against the store. Changes nothing on disk but the cache of code digests.

    Raises ConfigError, DatasetError, PlanError or StoreError, each naming what is wrong and where.
    """
    options = options or Options()
    if options.start:
        checked_start(options.start)
    experiment = with_files(root, load_experiment(path, options.overrides()))
    if options.is_subset:
        experiment = experiment.model_copy(update={"name": f"{experiment.name}.subset"})
    if options.start and (given_stage := options.start.partition("-")[0]) in experiment.reuse:
        raise PlanError(
            f"--from {options.start}: the experiment takes {given_stage} from {experiment.reuse[given_stage]}",
            hint=f"take {given_stage} out of its `reuse`",
        )
    instances = select(root, experiment)
    codes = code_digests(root.path)
    given: dict[str, Given] = {
        stage: find_given(root, stage, where, instances.dataset_digest, instances.ids)
        for stage, where in experiment.reuse.items()
    }
    return _with_salts(root, experiment, instances, codes, given, options)


def with_files(root: Root, experiment: Experiment) -> Experiment:
    """The experiment with the files of its agents' own (`spec: PATH`, `skills: PATH`) by content, read here and never
    again, and with the digest of recordings that are replayed.

    Raises ConfigError for a file that cannot be read or holds a secret: it is copied into the run folder.
    """
    arms = {
        name: arm.model_copy(
            update={
                "agent": arm.agent and _agent_with_files(root, arm.agent),
                "model": arm.model and _model_with_files(root, arm.model),
            }
        )
        for name, arm in experiment.arms.items()
    }
    agent, model = _agent_with_files(root, experiment.agent), _model_with_files(root, experiment.model)
    return experiment.model_copy(update={"agent": agent, "model": model, "arms": arms})


def _agent_with_files(root: Root, agent: Choice) -> Choice:
    options = agent.model_dump()
    if not {"spec", "skills"} & set(options):
        return agent
    from uchide import agents

    read = Choice.model_validate(agents.with_files(options, root.path))
    if holds_secret(json.dumps(read.model_dump(), ensure_ascii=False)):
        named = " or ".join(str(options[key]) for key in ("spec", "skills") if key in options)
        raise ConfigError(f"agent: {named}, or a file that belongs to it, holds a secret in plain text")
    return read


def _model_with_files(root: Root, model: Choice) -> Choice:
    from uchide import llm

    return Choice.model_validate(llm.with_files(model.model_dump(), root.path))


def _with_salts(
    root: Root,
    experiment: Experiment,
    instances: Instances,
    codes: Mapping[str, str],
    given: Mapping[str, Given],
    options: Options,
) -> Planned:
    salts = dict(read_salts(root, experiment.name))

    def make() -> Plan:
        return make_plan(experiment, instances, root.store, codes, salts=salts, given=given, until=options.until)

    plan = make()
    again = [*([options.start] if options.start else []), *outdated(plan, root.store)]
    if experiment.policy.code_drift == "rerun":
        again += [item.stage for item in drift(plan, root.store, codes) if item.labels]
    for stage in again:
        salts[stage] = _next_salt(salts.get(stage, ""), stage, codes)
    if again:
        plan = make()
    return Planned(plan, instances, drift(plan, root.store, codes), salts)


def _next_salt(now: str, stage: str, codes: Mapping[str, str]) -> str:
    """A salt that experiments with the same code agree on, and another one each time it is asked for again."""
    code = ".".join(codes[part.label][:6] for part in PARTS.values() if stage in (part.stage, part.label))
    return now + "+" if now.rstrip("+") == code else code


def salts_path(root: Root, experiment: str) -> Path:
    """Deleting this file goes back to the results before `--from`."""
    return root.home(experiment) / "from.json"


def read_salts(root: Root, experiment: str) -> dict[str, str]:
    path = salts_path(root, experiment)
    return dict(read_json(path)) if path.exists() else {}


def write_salts(root: Root, experiment: str, salts: Mapping[str, str]) -> None:
    if dict(salts) != read_salts(root, experiment):
        write_json(salts_path(root, experiment), dict(salts))


def checked_start(name: str) -> str:
    """A stage or a part with a name of its own. Raises PlanError."""
    known = [*STAGES, *(part.label for stage in STAGES for part in parts_of(stage) if part.kind)]
    if name not in known:
        raise PlanError(f"--from {name}: there is no such stage", hint=f"one of: {', '.join(known)}")
    return name


def select(root: Root, experiment: Experiment) -> Instances:
    """The instances that an experiment's `dataset` section chooses. Raises ConfigError when none is left."""
    from uchide import datasets

    wanted = experiment.dataset
    relative = wanted.path or f"datasets/{wanted.name}"
    dataset = datasets.load(wanted.name, root.path / relative)
    chosen = list(dataset.ids)
    if wanted.ids is not None:
        for unknown in sorted(set(wanted.ids) - set(chosen)):
            near = difflib.get_close_matches(unknown, chosen, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"see: uchide dataset ids {wanted.name}"
            raise ConfigError(f"dataset {wanted.name} has no instance {unknown!r}", hint=hint)
        chosen = [item for item in chosen if item in wanted.ids]
    if wanted.split is not None:
        chosen = [item for item in chosen if dataset.split(item) == wanted.split]
    if wanted.repo is not None:
        chosen = [item for item in chosen if dataset.repo(item) == wanted.repo]
    chosen = chosen[: wanted.limit]
    if not chosen:
        filters = ", ".join(f"{key}={value}" for key, value in wanted if value is not None and key in _FILTERS)
        raise ConfigError(f"dataset {wanted.name}: no instance is left after {filters or 'loading'}")
    return Instances(tuple(chosen), wanted.name, relative, dataset.digest)


_FILTERS = {"ids", "split", "repo", "limit"}
