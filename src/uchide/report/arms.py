"""One row per arm: what it reached, what it used, and how it differs from the first arm on the same instances."""

from collections.abc import Sequence
from typing import Any

from uchide.report.linked import Arm
from uchide.report.summary import solved


def arm_row(arm: Arm, first: Arm) -> dict[str, Any]:
    """The row of `arm`. `difference` is its mean of resolved runs per instance less that of `first`, added up over the
    instances; cells that failed on our side are left out on both sides. Costs are None where one is unknown."""
    cells = [(run, i) for i in arm.ids for run in arm.runs]
    made = [arm.candidates[cell] for cell in cells]
    counts = [sum(arm.resolved(run, i) for i in arm.ids) for run in arm.runs]
    infra = sum(arm.is_infra(*cell) for cell in cells)
    costs = [candidate.usage.cost for candidate in made]
    valid = len(cells) - infra
    return {
        "arm": arm.name,
        "k": len(arm.runs),
        "instances": len(arm.ids),
        "pass_at_1_mean": sum(counts) / len(counts),
        "pass_at_1_min": min(counts),
        "pass_at_1_max": max(counts),
        "oracle": sum(any(arm.resolved(run, i) for run in arm.runs) for i in arm.ids),
        "selected": "; ".join(
            f"{name} {sum(solved(row.verdict) for row in rows.values())}" for name, rows in arm.picks.items()
        ),
        "turns_mean": sum(candidate.turns for candidate in made) / len(made),
        "calls_mean": sum(candidate.usage.calls for candidate in made) / len(made),
        "prompt_tokens": sum(candidate.usage.prompt_tokens for candidate in made),
        "completion_tokens": sum(candidate.usage.completion_tokens for candidate in made),
        "cost": None if None in costs else sum(cost for cost in costs if cost is not None),
        "format_errors": sum(candidate.format_errors for candidate in made),
        "infra": infra,
        "rate_valid": sum(counts) / valid if valid else None,
        "difference": difference(arm, first),
        "leaderboard_valid": all(candidate.leaderboard_valid for candidate in made),
        "differs": arm.differs,
        "pool": ", ".join(arm.pool),
    }


def difference(arm: Arm, first: Arm) -> float | None:
    """Paired by instance: resolved instances of an average run more than the first arm; None where nothing pairs."""
    pairs = [(rate(arm, i), rate(first, i)) for i in arm.ids if i in first.ids]
    found = [mine - other for mine, other in pairs if mine is not None and other is not None]
    return sum(found) if found else None


def rate(arm: Arm, instance_id: str) -> float | None:
    """The share of an instance's runs that resolve it, of those that were judged."""
    judged = [arm.resolved(run, instance_id) for run in arm.runs if not arm.is_infra(run, instance_id)]
    return sum(judged) / len(judged) if judged else None


def arm_rows(arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """In the order of the experiment."""
    return [arm_row(arm, arms[0]) for arm in arms]
