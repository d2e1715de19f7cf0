"""Snakemake called plainly, without `uchide run`: the Snakefile asks here for a frozen plan."""

from collections.abc import Sequence
from pathlib import Path

from uchide.errors import ConfigError
from uchide.paths import find_root
from uchide.pipeline.controller import check_components, set_pointers
from uchide.pipeline.freeze import core_count, freeze, load_frozen
from uchide.pipeline.planner import plan_experiment


def freeze_for_snakemake(basedir: str | Path, configfiles: Sequence[str | Path], cores: int | None) -> Path:
    """Plan and freeze the experiment that `--configfile` names; returns the path of `plan.json`.

    Raises ConfigError unless exactly one file is given.
    """
    if len(configfiles) != 1:
        raise ConfigError("give exactly one --configfile experiments/NAME.yaml")
    root, path = find_root(Path(basedir)), Path(configfiles[0]).resolve()
    planned = plan_experiment(root, path)
    for drift in planned.drifts:
        again = f"uchide run {path} --from {drift.stage}"
        print(f"{drift.stage} was made by other code than today's; to run it again: {again}")
    check_components(planned.plan, root)
    asked = planned.plan.experiment.policy.concurrency
    run, frozen = freeze(planned.plan, planned.instances, root, path, core_count(asked or cores))
    if not frozen.jobs:
        set_pointers(root, frozen.experiment, frozen.pointers)
    return run / "plan.json"


def point_to_results(basedir: str | Path, plan: Path) -> None:
    """Set the pointers of a finished plan."""
    frozen = load_frozen(plan)
    set_pointers(find_root(Path(basedir)), frozen.experiment, frozen.pointers)
