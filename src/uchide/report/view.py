"""The page as plain values: headline, bars, grid, instances, failures, costs. The template only prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from uchide.records import Category
from uchide.report.arms import arm_rows
from uchide.report.inputs import ReportInputs, StageTime
from uchide.report.linked import Arm
from uchide.report.summary import ArmSummary, Summary, headline_selector, wilson
from uchide.report.view_instance import InstanceView, Load, view_instance

MEANING: dict[Category, str] = {
    "resolved": "every hidden test passes",
    "wrong_fix": "a test that shows the bug still fails",
    "regression": "the bug is fixed, a test that passed before fails",
    "empty_patch": "the run made no patch",
    "patch_did_not_apply": "the patch does not fit the base tree",
    "timeout": "the tests did not end in time",
    "no_results": "the tests could not run with this patch",
    "infra": "our own failure: says nothing about the patch",
}
assert set(MEANING) == set(get_args(Category))


@dataclass(frozen=True)
class Bar:
    """One bar: a number of instances and its share of all, as a percentage."""

    label: str
    count: float
    percent: float
    kind: str
    """`run`, `mean`, `selector` or `oracle`."""
    note: str = ""
    strong: bool = False


@dataclass(frozen=True)
class GridCell:
    """One candidate in the grid."""

    run: str
    href: str
    category: Category
    picked: bool


@dataclass(frozen=True)
class GridRow:
    """One instance in the grid."""

    instance_id: str
    href: str
    cells: tuple[GridCell, ...]
    resolved_runs: int
    distinct: int
    pick: str
    """Category of the headline pick, `abstained`, or empty without picks."""
    tied: bool


@dataclass(frozen=True)
class ArmView:
    """One arm, complete."""

    anchor: str
    name: str
    agent: str
    model: str
    runs: tuple[str, ...]
    summary: ArmSummary
    selected: int | None
    gap: float | None
    reading: str
    caution: str
    bars: tuple[Bar, ...]
    grid: tuple[GridRow, ...]
    failures: tuple[tuple[Category, int, str], ...]
    instances: tuple[InstanceView, ...]


@dataclass(frozen=True)
class CostRow:
    """CPU and wall seconds of one stage, and the same of its parts."""

    stage: str
    cpu_seconds: float
    wall_seconds: float
    parts: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class PageView:
    """The whole page."""

    inputs: ReportInputs
    summary: Summary
    arms: tuple[ArmView, ...]
    costs: tuple[CostRow, ...]
    problems: tuple[tuple[str, str], ...]
    """(instance_id, why): excluded instances, and preflights that failed."""
    rows: tuple[dict[str, Any], ...]
    """Of the table of arms; see `uchide.report.arms`."""


def view_page(inputs: ReportInputs, arms: Sequence[Arm], summary: Summary, load: Load) -> PageView:
    numbers = [summary.arms.get(arm.name, summary) for arm in arms]
    problems = {row.instance_id: row.reason for row in inputs.preflight if not row.ok}
    problems |= {row.instance_id: row.reason for row in inputs.excluded}
    return PageView(
        inputs=inputs,
        summary=summary,
        arms=tuple(
            view_arm(inputs, arm, row, f"a{n}", load) for n, (arm, row) in enumerate(zip(arms, numbers, strict=True))
        ),
        costs=view_costs(inputs.times),
        problems=tuple(sorted(problems.items())),
        rows=tuple(arm_rows(arms)),
    )


def view_arm(inputs: ReportInputs, arm: Arm, numbers: ArmSummary, anchor: str, load: Load) -> ArmView:
    selector = headline_selector(arm, inputs.selector)
    return ArmView(
        anchor=anchor,
        name=arm.name,
        agent=arm.agent,
        model=arm.model,
        runs=arm.runs,
        summary=numbers,
        selected=numbers.selected[selector] if selector else None,
        gap=numbers.gap_closed[selector] if selector else None,
        reading=reading(numbers, selector),
        caution=caution(numbers, selector),
        bars=view_bars(numbers, selector),
        grid=tuple(view_grid_row(arm, n, f"{anchor}-i{n}", selector) for n in range(len(arm.ids))),
        failures=tuple(
            (name, numbers.categories[name], MEANING[name]) for name in MEANING if name in numbers.categories
        ),
        instances=tuple(view_instance(arm, n, f"{anchor}-i{n}", selector, load) for n in range(len(arm.ids))),
    )


def reading(numbers: ArmSummary, selector: str | None) -> str:
    """The headline in one plain sentence or two."""
    mean, n = numbers.pass_at_1.mean, numbers.n_instances
    single = f"an average single run resolves {mean:.1f} of {n}"
    if selector is None:
        return f"No selector has picked yet; {single}, and {numbers.oracle} are resolved by at least one run."
    count = numbers.selected[selector]
    choice, issues = _plural(numbers.k, "candidate"), _plural(n, "issue")
    chosen = f"Picking one of {choice} per issue with {selector} resolves {count} of {issues}"
    gap = numbers.gap_closed[selector]
    if gap is None:
        return f"{chosen}. All runs resolve the same {numbers.oracle}, so there was nothing to gain by picking."
    if gap < 0:
        return f"{chosen}: fewer than picking at random, since {single}. A perfect picker would reach {numbers.oracle}."
    return (
        f"{chosen}; {single}. That is {100 * gap:.0f} % of the way to the oracle, a perfect picker, "
        f"which would reach {numbers.oracle}."
    )


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def caution(numbers: ArmSummary, selector: str | None) -> str:
    """How much weight the number of instances bears; empty when there are many."""
    n = numbers.n_instances
    if n >= 200:
        return ""
    low, high = wilson(numbers.selected[selector] if selector else round(numbers.pass_at_1.mean), n)
    what = "the selected rate" if selector else "a run's rate"
    few = f"{_plural(n, 'issue')} {'is' if n == 1 else 'are'} a small sample"
    return (
        f"{few}: one is {100 / n:.1f} points, and the 95 % interval of {what} "
        f"reaches from {100 * low:.0f} to {100 * high:.0f} %. Differences of a few issues are within noise."
    )


def view_bars(numbers: ArmSummary, selector: str | None) -> tuple[Bar, ...]:
    n = numbers.n_instances

    def bar(label: str, count: float, kind: str, note: str = "", *, strong: bool = False) -> Bar:
        return Bar(label=label, count=count, percent=100 * count / n, kind=kind, note=note, strong=strong)

    runs = [bar(row.run, row.resolved, "run") for row in numbers.per_run]
    ordered = sorted(numbers.selected, key=lambda name: (name != selector, -numbers.selected[name], name))
    gaps = {name: share(numbers.gap_closed[name]) for name in ordered}
    selectors = [bar(name, numbers.selected[name], "selector", gaps[name], strong=name == selector) for name in ordered]
    mean = bar("mean of runs", numbers.pass_at_1.mean, "mean")
    return (*runs, mean, *selectors, bar("oracle", numbers.oracle, "oracle"))


def share(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.0f} % of gap"


def view_grid_row(arm: Arm, index: int, anchor: str, selector: str | None) -> GridRow:
    instance_id = arm.ids[index]
    row = arm.picks[selector][instance_id] if selector else None
    cells = [
        GridCell(
            run=run,
            href=f"#{anchor}-r{n}",
            category="infra" if arm.is_infra(run, instance_id) else arm.verdicts[run, instance_id].category,
            picked=row is not None and row.pick.run == run,
        )
        for n, run in enumerate(arm.runs, start=1)
    ]
    return GridRow(
        instance_id=instance_id,
        href=f"#{anchor}",
        cells=tuple(cells),
        resolved_runs=sum(arm.resolved(run, instance_id) for run in arm.runs),
        distinct=len(arm.distinct(instance_id)),
        pick="" if row is None else row.verdict.category if row.verdict else "abstained",
        tied=row is not None and len(row.pick.tied) > 1,
    )


def view_costs(times: Sequence[StageTime]) -> tuple[CostRow, ...]:
    rows = []
    for stage in dict.fromkeys(row.stage for row in times):
        mine = [row for row in times if row.stage == stage]
        parts = dict.fromkeys(row.part for row in mine if row.part)
        rows.append(
            CostRow(
                stage=stage,
                cpu_seconds=sum(row.cpu_seconds for row in mine),
                wall_seconds=sum(row.wall_seconds for row in mine),
                parts=tuple(
                    (
                        part,
                        sum(row.cpu_seconds for row in mine if row.part == part),
                        sum(row.wall_seconds for row in mine if row.part == part),
                    )
                    for part in parts
                ),
            )
        )
    return tuple(rows)
