"""The controller: plan, freeze the plan, run Snakemake on what is missing, watch, and set pointers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from uchide.errors import ConfigError, StageError
from uchide.paths import Root
from uchide.pipeline.freeze import core_count, freeze
from uchide.pipeline.plan import Plan
from uchide.pipeline.planner import Options, Planned, plan_experiment, write_salts
from uchide.pipeline.procs import signal_group
from uchide.pipeline.progress import StageProgress, Watcher
from uchide.pipeline.spec import FrozenPlan
from uchide.store.atomic import check_room, point
from uchide.store.lease import lease

SPEND_LIMIT = "policy.spend."
"""How the message of a reached spend cap begins."""
POLL_S = 0.5
GRACE_S = 8.0
"""Time workers get to close their sandboxes after a stop."""

Tick = Callable[[Sequence[StageProgress], Sequence[str]], None]
"""Called twice a second with the state of all stages and what happened since."""


class StoppedError(Exception):
    """The user stopped the run (Ctrl-C or SIGTERM)."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    planned: Planned
    run: Path | None = None
    """Run folder; None when nothing was missing."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Job name -> what it said."""

    @property
    def jobs(self) -> int:
        return len(self.planned.plan.needed)


def run_experiment(
    root: Root,
    path: Path,
    options: Options,
    *,
    announce: Callable[[Planned], None] = lambda _: None,
    tick: Tick = lambda _stages, _lines: None,
) -> Outcome:
    """Run what is missing of an experiment and set its pointers.

    `announce` gets the plan before anything runs. Raises LeaseError when another process runs the experiment,
    StoppedError on Ctrl-C; failed jobs are in the outcome, and only what does not depend on them was run.
    """
    planned = plan_experiment(root, path, options)
    name = planned.plan.experiment.name
    with lease(root.home(name) / "lease.json", f"experiment {name}"):
        planned = plan_experiment(root, path, options)  # again: another controller may have just ended
        announce(planned)
        write_salts(root, name, planned.salts)
        if not planned.plan.needed:
            set_pointers(root, name, planned.plan.pointers)
            return Outcome(planned)
        check_components(planned.plan, root)
        cores = core_count(planned.plan.experiment.policy.concurrency)
        run, frozen = freeze(planned.plan, planned.instances, root, path, cores)
        failures = _run(root, run, frozen, planned.plan, tick)
        if not failures:
            set_pointers(root, name, frozen.pointers)
        return Outcome(planned, run, failures)


def check_components(plan: Plan, root: Root) -> None:
    """Make the agent and the model of every arm that has rollouts to do, and see that spend caps can be kept. Raises
    ConfigError for unusable options."""
    if not any(plan.jobs[name].kind.label == "bench-generate" for name in plan.needed):
        return
    from uchide import agents, llm
    from uchide.agents.places import places_of, refuse_unknown_places

    exp = plan.experiment
    places: set[str] = set()
    for arm in exp.arms:
        with _named(arm):
            places |= places_of(agents.create(exp.agent_of(arm).model_dump()))
    for arm in exp.arms:
        with _named(arm):
            model = exp.model_of(arm).model_dump()
            elsewhere = (model.get("for") or {}).values()
            names = {model["name"], *(options.get("name") for options in elsewhere if isinstance(options, Mapping))}
            if exp.agent_of(arm).name != "phases" and "mutator" in names:
                raise ConfigError(
                    f"the model mutator plays the agent phases only, not {exp.agent_of(arm).name}",
                    hint="name another model for this arm, e.g. `model: {name: openai, base_url: ..., model: ...}`",
                )
            llm.create(model, root=root.path)
            llm.refuse_uncountable(model, exp.policy.spend)
            refuse_unknown_places(model.get("for") or (), places)


@contextmanager
def _named(arm: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"arm {arm}: {error.message}", hint=error.hint) from error


def set_pointers(root: Root, experiment: str, pointers: Mapping[str, str]) -> None:
    """Link `artifacts/<experiment>/<stage>` (and `reports/<experiment>`) to the artifacts in the store."""
    for stage, name in pointers.items():
        point(root.home(experiment) / stage, root.store / name)
        if stage == "report":
            point(root.report(experiment), root.store / name)


def snakemake_args(root: Root, run: Path, frozen: FrozenPlan) -> list[str]:
    """Arguments for Snakemake on a frozen plan."""
    return [
        *("--snakefile", str(run / "code" / "Snakefile")),
        *("--directory", str(run)),
        *("--profile", str(root.path / "profiles" / "local")),
        *("--cores", str(frozen.cores)),
        *("--config", f"plan={run / 'plan.json'}"),
    ]


def _run(root: Root, run: Path, frozen: FrozenPlan, plan: Plan, tick: Tick) -> dict[str, str]:
    argv = [sys.executable, "-P", "-m", "uchide.pipeline.launch", str(os.getpid()), *snakemake_args(root, run, frozen)]
    env = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}
    env["PYTHONPATH"] = str(root.path / "src")
    watcher = Watcher(
        run / "progress",
        {
            name: (frozen.jobs[name].label, len(plan.jobs[name].ids) * plan.jobs[name].kind.parallel)
            for name in plan.needed
        },
    )
    with (run / "snakemake.log").open("wb") as log:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
        )
    _watch(child, watcher, tick)
    return _failures(run, child.returncode, watcher)


def _watch(child: subprocess.Popen[bytes], watcher: Watcher, tick: Tick) -> None:
    """Wait for Snakemake, showing progress. Whatever ends this early takes Snakemake and its jobs along."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        while True:
            ended = _wait(child)
            tick(watcher.stages(), watcher.poll())
            if ended:
                return
    except KeyboardInterrupt:
        raise StoppedError from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child.poll() is None:
            _end_group(child)


def _wait(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ask Snakemake and its jobs to end, then make sure of it."""
    signal_group(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _failures(run: Path, code: int, watcher: Watcher) -> dict[str, str]:
    failures = watcher.errors()
    if code == 0 and not failures:
        return {}
    for name in watcher.expected:
        log = run / "logs" / f"{name}.log"
        if log.exists() and not (run / "done" / name).exists() and name not in failures:
            check_room(run)  # on a full disk a job cannot say why it ended
            failures[name] = f"ended without a word (killed?); its log: {log}"
    if not failures:
        check_room(run)
        tail = (run / "snakemake.log").read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise StageError(f"Snakemake ended with status {code}", hint="\n".join([*tail, f"all of it: {run}"]))
    return _one_spend_limit(failures, watcher)


def _one_spend_limit(failures: Mapping[str, str], watcher: Watcher) -> dict[str, str]:
    """A spend cap ends many jobs at once, for one reason: the first of them stands for all, with all their rows."""
    stopped = [name for name, message in failures.items() if message.startswith(SPEND_LIMIT)]
    if not stopped:
        return dict(failures)
    what, _, hint = failures[stopped[0]].partition("\n")
    rollouts = next(stage for stage in watcher.stages() if stage.label == watcher.expected[stopped[0]][0])
    left = {name: message for name, message in failures.items() if name not in stopped}
    count = f"{rollouts.done} of {rollouts.total} rollouts are done"
    return {**left, stopped[0]: f"{what.partition('; ')[0]}; {count}\n{hint}"}
