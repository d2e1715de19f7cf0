"""`uchide run`, `plan`, `show` and `status`."""

import re
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uchide.cli.options import ExperimentArgument, RootOption, argument, read_ids, root_and_file
from uchide.cli.text import duration, plural, say, table
from uchide.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from uchide.paths import Root
    from uchide.pipeline.controller import Outcome
    from uchide.pipeline.plan import Plan
    from uchide.pipeline.planner import Options, Planned

Until = Annotated[str | None, typer.Option("--until", metavar="STAGE", help="Stop after this stage.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="STAGE",
        help="Run this stage (or part, like tts-pick) and what follows again. Left out, an interrupted run goes on.",
    ),
]
Ids = Annotated[
    list[str] | None, typer.Option("-i", "--instance", metavar="ID", help="Only this instance; repeatable.")
]
IdsFile = Annotated[Path | None, typer.Option("--ids-file", metavar="FILE", help="Only these instances, one per line.")]
Repo = Annotated[str | None, typer.Option("--repo", help="Only instances of this repository.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most this many instances.")]
Runs = Annotated[int | None, typer.Option("--runs", min=1, max=99, help="Candidates per instance and arm.")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", min=1, help="Rows worked on at once.")]
SummaryFile = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", help="Append the report's table to this file (CI job summaries)."),
]

CANDIDATE = re.compile(r"[^./]+\.r\d+_s\d+\.(?P<instance>[^/]+)")
"""The id of a candidate."""


def run(
    experiment: ExperimentArgument,
    until: Until = None,
    start: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would run, and run nothing.")] = False,
    instance: Ids = None,
    ids_file: IdsFile = None,
    repo: Repo = None,
    limit: Limit = None,
    runs: Runs = None,
    concurrency: Concurrency = None,
    summary: SummaryFile = None,
    root: RootOption = None,
) -> None:
    """Run what is missing of an experiment. The same command continues an interrupted run."""
    where, path = root_and_file(root, experiment)
    options = _options(until, start, instance, ids_file, repo, limit, runs, concurrency)
    if summary and until not in (None, "report"):
        raise ConfigError(f"--summary is the report's table, and --until {until} makes no report")
    if dry_run:
        from uchide.pipeline.planner import plan_experiment

        _announce(plan_experiment(where, path, options))
        return
    name = _run(where, path, options)
    if summary:
        with summary.open("a", encoding="utf-8") as file:
            file.write((where.report(name) / "summary.md").read_text(encoding="utf-8"))


def plan(
    experiment: ExperimentArgument,
    until: Until = None,
    start: From = None,
    instance: Ids = None,
    ids_file: IdsFile = None,
    repo: Repo = None,
    limit: Limit = None,
    runs: Runs = None,
    root: RootOption = None,
) -> None:
    """List every job of an experiment with its key, and whether it is there. Runs nothing."""
    from uchide.pipeline.planner import plan_experiment

    where, path = root_and_file(root, experiment)
    planned = plan_experiment(where, path, _options(until, start, instance, ids_file, repo, limit, runs, None))
    needed = set(planned.plan.needed)
    rows = [
        [name, "there" if not job.missing else ("missing" if name in needed else "not needed"), str(len(job.ids))]
        for name, job in planned.plan.jobs.items()
    ]
    say(table(rows, head=["job", "state", "instances"]))
    _announce(planned)


def show(
    experiment: Annotated[
        str,
        typer.Argument(metavar="EXPERIMENT", help="An experiment file or name, or the id of a candidate."),
    ],
    instance: Annotated[
        str | None, typer.Argument(help="One instance: its candidates, verdicts and picks. Or a candidate's id.")
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Page the trajectory of this run (r01, or ARM.r01).")
    ] = None,
    phase: Annotated[str, typer.Option("--phase", metavar="NAME", help="Of the trajectory, only this phase.")] = "",
    turn: Annotated[
        int | None, typer.Option("--turn", min=1, metavar="N", help="Only this turn, counted over the whole rollout.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Leave nothing out of the trajectory.")] = False,
    root: RootOption = None,
) -> None:
    """Print an experiment's results, or one instance's, as far as they are there; or page a candidate's trajectory."""
    from uchide.cli.results import instance_text, overview_text, trajectory_path

    name, instance, run = _candidate(root, experiment, instance, run)
    where, path = root_and_file(root, name)
    if not (run or phase or turn or full):
        say(instance_text(where, path, instance) if instance else overview_text(where, path))
        return
    if not instance:
        raise ConfigError("--run, --phase, --turn and --full need an instance", hint=f"uchide show {name} INSTANCE ...")
    from uchide.agents.interop import load
    from uchide.cli.paging import Part, lines
    from uchide.cli.paging import show as page

    page(lines(load(trajectory_path(where, path, instance, run or "")), Part(phase, turn, full)))


def _candidate(
    root: Path | None, experiment: str, instance: str | None, run: str | None
) -> tuple[str, str | None, str | None]:
    """Experiment, instance and run; a candidate's id (ARM.RUN.INSTANCE) may stand for the last two, or for all."""
    given = instance or experiment
    if not (found := CANDIDATE.fullmatch(given)):
        return experiment, instance, run
    if instance:
        return experiment, found["instance"], given
    from uchide.cli.inside import owner
    from uchide.paths import find_root

    return owner(find_root(root), found["instance"], given), found["instance"], given


def status(root: RootOption = None) -> None:
    """What is running now, in which experiment, and how far it is."""
    from uchide.cli.results import status_text
    from uchide.paths import find_root

    say(status_text(find_root(root)))


def _options(
    until: str | None,
    start: str | None,
    instance: list[str] | None,
    ids_file: Path | None,
    repo: str | None,
    limit: int | None,
    runs: int | None,
    concurrency: int | None,
) -> "Options":
    from uchide.pipeline.planner import Options

    ids = (*map(argument, instance or ()), *(read_ids(ids_file) if ids_file else ()))
    return Options(until, start, tuple(dict.fromkeys(ids)), argument(repo) if repo else None, limit, runs, concurrency)


def _run(root: "Root", path: Path, options: "Options") -> str:
    """Run, print how it went, and give the name the results stand under."""
    from uchide.cli import results  # before the run: an edit of the code meanwhile must not meet it half way
    from uchide.cli.display import display
    from uchide.pipeline.controller import StoppedError, run_experiment

    again, began = " ".join(["uchide", *without_from(sys.argv[1:])]), time.monotonic()
    try:
        with display() as screen:
            outcome = run_experiment(root, path, options, announce=_announce, tick=screen.tick)
    except StoppedError:
        say(f"stopped; finished rows are kept. To go on: {again}", err=True)
        raise typer.Exit(130) from None
    if outcome.failures:
        _explain(outcome, again)
        raise typer.Exit(1)
    _conclude(root, outcome, results.summary_text)
    say(f"took {duration(time.monotonic() - began)}, {_cpu_seconds():.0f} CPU s")
    return outcome.planned.plan.experiment.name


def without_from(words: Sequence[str]) -> list[str]:
    """A command line that goes on with what it began: `--from STAGE`, given again, would begin anew."""
    kept = [word for n, word in enumerate(words) if word != "--from" and (n == 0 or words[n - 1] != "--from")]
    return [word for word in kept if not word.startswith("--from=")]


def _cpu_seconds() -> float:
    """CPU seconds of this process and of all it has waited for: the whole process tree of a finished run."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _announce(planned: "Planned") -> None:
    exp, plan = planned.plan.experiment, planned.plan
    arms = f", {plural(len(exp.arms), 'arm')}" if len(exp.arms) > 1 else ""
    chosen = planned.instances
    say(f"{exp.name}: {plural(len(chosen.ids), 'instance')} of {chosen.dataset_name}, {plural(exp.runs, 'run')}{arms}")
    for item in planned.drifts:
        parts = " and ".join(item.labels) or f"its input {' and '.join(item.upstream)}"
        partly = "" if item.whole else " partly"
        say(f"{item.stage}: {parts} was{partly} made by other code than today's; to run it again: --from {item.stage}")
    rollouts = [name for name, job in plan.jobs.items() if job.kind.label == "bench-generate"]
    if plan.needed and (there := [name for name in rollouts if name not in plan.needed]):
        made = f"{len(there)} of {plural(len(rollouts), 'rollout job')}"
        say(f"{made} done before with this configuration; --from bench repeats them")
    counts = ", ".join(f"{label} {count}" for label, count in plan.counts().items())
    say(f"{plural(len(plan.needed), 'job')} to run: {counts}" if counts else "nothing to run: every artifact is there")


def _explain(outcome: "Outcome", again: str) -> None:
    for name, message in outcome.failures.items():
        say(f"failed: {name}: {message}", err=True)
    if outcome.run:
        say(f"logs: {outcome.run / 'logs'}", err=True)
    say(f"finished rows are kept. Once the cause is mended: {again}", err=True)


def _conclude(root: "Root", outcome: "Outcome", summary_text: "Callable[[Root, Plan], str]") -> None:
    plan = outcome.planned.plan
    if "report" in plan.pointers:
        say(summary_text(root, plan))
    else:
        last = plan.jobs[plan.targets[-1]]
        say(f"{last.kind.stage}: {root.home(plan.experiment.name) / last.kind.stage}")
