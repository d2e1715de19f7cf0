"""The numbers of an experiment (`summary.json`). Counts are counts of instances; rates are left to the reader."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from uchide.records import VOLATILE, Record, Verdict
from uchide.report.inputs import ReportInputs, StageTime
from uchide.report.linked import Arm, link


class RunCount(Record):
    """Instances one run resolved."""

    run: str
    resolved: int


class PassAt1(Record):
    """Resolved instances of a single run: mean, worst and best over the runs. Counts, not rates."""

    mean: float
    min: int
    max: int


class Tokens(Record):
    """Sums over all candidates; `cached` is null when no server said how many prompt tokens it had cached."""

    calls: int
    prompt: int
    completion: int
    cached: int | None


class ArmSummary(Record):
    """The numbers of one arm."""

    k: int
    """Runs, i.e. candidates per instance."""
    n_instances: int
    n_excluded: int
    per_run: tuple[RunCount, ...]
    pass_at_1: PassAt1
    selected: dict[str, int]
    """Selector -> instances whose pick is resolved; an abstention counts as not resolved."""
    oracle: int
    """Instances that at least one run resolved."""
    gap_closed: dict[str, float | None]
    """Selector -> (selected - mean) / (oracle - mean); null when the oracle equals the mean. May be negative."""
    ties: int
    """Instances where the headline selector (see `selector`) found more than one patch within its margin."""
    selector: str | None
    """The selector that `ties` speaks of; null when there are no picks."""
    unique_patches_mean: float
    """Distinct non-empty patches per instance, averaged over all instances."""
    categories: dict[str, int]
    """Verdict category -> candidates, over all runs. Categories that did not occur are left out."""
    infra: int
    """Candidates without a statement about the model, because a rollout or a grading failed on our side."""
    cpu_seconds: dict[str, float] = Field(json_schema_extra=VOLATILE)
    """Stage -> CPU seconds. Of an arm: its own work only; of the experiment: everything."""
    wall_seconds: dict[str, float] = Field(json_schema_extra=VOLATILE)
    """Stage -> wall seconds, summed over parts (parts may have run at the same time)."""
    tokens: Tokens
    differs: str = ""
    """What its configuration has otherwise than the first arm's."""
    pool: tuple[str, ...] = ()
    """Of a pool: the arms whose candidates these are."""


class Summary(ArmSummary):
    """`summary.json`. The numbers at the top level are those of the first arm."""

    schema_version: Literal[1] = 1
    experiment: str
    arms: dict[str, ArmSummary] = Field(default_factory=dict)
    """Every arm by name when there are several; empty for a plain experiment."""


def summarise(inputs: ReportInputs) -> Summary:
    """The summary of `inputs`. Raises ReportError when its rows do not belong together."""
    return summarise_arms(inputs, link(inputs))


def summarise_arms(inputs: ReportInputs, arms: Sequence[Arm]) -> Summary:
    several = len(arms) > 1
    first = summarise_arm(inputs, arms[0], inputs.times)
    return Summary(
        experiment=inputs.experiment,
        arms={
            arm.name: summarise_arm(inputs, arm, [t for t in inputs.times if t.arm == arm.name])
            for arm in (arms if several else ())
        },
        **dict(first),
    )


def summarise_arm(inputs: ReportInputs, arm: Arm, times: Iterable[StageTime]) -> ArmSummary:
    per_run = [RunCount(run=run, resolved=sum(arm.resolved(run, i) for i in arm.ids)) for run in arm.runs]
    counts = [row.resolved for row in per_run]
    # Summed exactly before dividing, so that the mean never depends on the order of runs.
    mean = sum(counts) / len(counts)
    oracle = sum(any(arm.resolved(run, i) for run in arm.runs) for i in arm.ids)
    selected = {name: sum(solved(row.verdict) for row in rows.values()) for name, rows in arm.picks.items()}
    headline = headline_selector(arm, inputs.selector)
    ties = sum(len(row.pick.tied) > 1 for row in arm.picks[headline].values()) if headline else 0
    cells = [(run, i) for i in arm.ids for run in arm.runs]
    times = list(times)
    return ArmSummary(
        k=len(arm.runs),
        n_instances=len(arm.ids),
        n_excluded=len(inputs.excluded),
        per_run=tuple(per_run),
        pass_at_1=PassAt1(mean=mean, min=min(counts), max=max(counts)),
        selected=selected,
        oracle=oracle,
        gap_closed={name: gap_closed(count, mean, oracle) for name, count in selected.items()},
        ties=ties,
        selector=headline,
        unique_patches_mean=sum(len(arm.distinct(i)) for i in arm.ids) / len(arm.ids),
        categories=dict(sorted(Counter(arm.verdicts[cell].category for cell in cells).items())),
        infra=sum(arm.is_infra(*cell) for cell in cells),
        cpu_seconds=by_stage((t.stage, t.cpu_seconds) for t in times),
        wall_seconds=by_stage((t.stage, t.wall_seconds) for t in times),
        tokens=count_tokens(arm),
        differs=arm.differs,
        pool=arm.pool,
    )


def solved(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.resolved


def gap_closed(selected: float, mean: float, oracle: int) -> float | None:
    """The part of the way from the average run to the oracle that a selector went; None when there is no way to go."""
    return None if oracle == mean else (selected - mean) / (oracle - mean)


def headline_selector(arm: Arm, wanted: str) -> str | None:
    """`wanted` if the arm has its picks, else the first selector it has, else None."""
    return wanted if wanted in arm.picks else next(iter(arm.picks), None)


def by_stage(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for stage, seconds in rows:
        total[stage] = total.get(stage, 0.0) + seconds
    return {stage: round(seconds, 3) for stage, seconds in total.items()}


def count_tokens(arm: Arm) -> Tokens:
    usages = [candidate.usage for candidate in arm.candidates.values()]
    cached = [usage.cached_tokens for usage in usages if usage.cached_tokens is not None]
    return Tokens(
        calls=sum(usage.calls for usage in usages),
        prompt=sum(usage.prompt_tokens for usage in usages),
        completion=sum(usage.completion_tokens for usage in usages),
        cached=sum(cached) if cached else None,
    )


def wilson(successes: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion, as two fractions. `n` must be positive."""
    z = 1.959964
    centre = successes / n + z * z / (2 * n)
    half = z * math.sqrt(successes / n * (1 - successes / n) / n + z * z / (4 * n * n))
    return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))


def to_json(summary: Summary) -> str:
    """The text of `summary.json`: what it is of first, then the numbers."""
    data = summary.model_dump(mode="json")
    first = {name: data.pop(name) for name in ("schema_version", "experiment")}
    return json.dumps(first | data, indent=2, ensure_ascii=True) + "\n"
