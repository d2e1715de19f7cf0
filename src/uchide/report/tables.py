"""The tables of a report, each as CSV and as Parquet with the same rows and columns in the same order.

Text is in its visible form (no control bytes), so that a table can be shown on a terminal. In the CSV files a missing
value is an empty field and an empty text is `""`. Only this module imports pyarrow.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from uchide.report.arms import arm_row
from uchide.report.linked import Arm
from uchide.report.summary import solved
from uchide.report.visible import one_line

Row = dict[str, Any]

TEXT, INTEGER, NUMBER, YES_NO = "string", "int64", "float64", "bool_"

COLUMNS: dict[str, dict[str, str]] = {
    "candidates": {
        "arm": TEXT, "run": TEXT, "seed": INTEGER, "instance_id": TEXT, "candidate_id": TEXT, "exit_status": TEXT,
        "patch_sha256": TEXT, "patch_chars": INTEGER, "suite_sha256": TEXT, "fail_to_pass": INTEGER,
        "pass_to_pass": INTEGER, "phases": INTEGER, "turns": INTEGER, "format_errors": INTEGER, "calls": INTEGER,
        "prompt_tokens": INTEGER, "completion_tokens": INTEGER, "cached_tokens": INTEGER, "cost": NUMBER,
        "attempts": INTEGER,
        "cpu_seconds": NUMBER, "wall_seconds": NUMBER, "warnings": TEXT, "error": TEXT,
    },
    "verdicts": {
        "arm": TEXT, "run": TEXT, "instance_id": TEXT, "candidate_id": TEXT, "patch_sha256": TEXT, "resolved": YES_NO,
        "category": TEXT, "fail_to_pass_failed": INTEGER, "pass_to_pass_failed": INTEGER, "grader": TEXT,
        "grader_version": TEXT, "environment": TEXT, "cached": YES_NO, "cpu_seconds": NUMBER, "wall_seconds": NUMBER,
        "message": TEXT,
    },
    "picks": {
        "arm": TEXT, "selector": TEXT, "instance_id": TEXT, "run": TEXT, "patch_sha256": TEXT, "score": NUMBER,
        "tied": INTEGER, "resolved": YES_NO, "category": TEXT, "reason": TEXT,
    },
    "matrix": {
        "arm": TEXT, "instance_id": TEXT, "patch_sha256": TEXT, "patch_runs": TEXT, "suite_sha256": TEXT,
        "suite_runs": TEXT, "own": YES_NO, "kind": TEXT, "test": TEXT, "status": TEXT,
    },
    "per_run": {
        "arm": TEXT, "run": TEXT, "instances": INTEGER, "valid": INTEGER, "resolved": INTEGER, "rate": NUMBER,
        "rate_valid": NUMBER, "empty": INTEGER, "infra": INTEGER, "turns_mean": NUMBER, "prompt_tokens": INTEGER,
        "completion_tokens": INTEGER, "cpu_seconds": NUMBER, "wall_seconds": NUMBER,
    },
    "instances": {
        "arm": TEXT, "instance_id": TEXT, "repo": TEXT, "split": TEXT, "runs": INTEGER, "resolved_runs": INTEGER,
        "distinct_patches": INTEGER, "resolving_patches": INTEGER, "admitted_suites": INTEGER,
        "rejected_suites": INTEGER, "environment": TEXT, "tree": TEXT,
    },
    "arms": {
        "arm": TEXT, "k": INTEGER, "instances": INTEGER, "pass_at_1_mean": NUMBER, "pass_at_1_min": INTEGER,
        "pass_at_1_max": INTEGER, "oracle": INTEGER, "selected": TEXT, "turns_mean": NUMBER, "calls_mean": NUMBER,
        "prompt_tokens": INTEGER, "completion_tokens": INTEGER, "cost": NUMBER, "format_errors": INTEGER,
        "infra": INTEGER, "rate_valid": NUMBER, "difference": NUMBER, "leaderboard_valid": YES_NO,
        "differs": TEXT, "pool": TEXT,
    },
}  # fmt: skip
"""Table -> column -> Arrow type. Columns are only ever added at the end."""


def write_tables(arms: Sequence[Arm], folder: Path) -> None:
    """Write `<folder>/<table>.csv` and `.parquet` for every table, all arms beneath one another.

    The candidates of a pool and their verdicts stand under its arms already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Arm], Iterator[Row]]] = {
        "candidates": candidates,
        "verdicts": verdicts,
        "picks": picks,
        "matrix": matrix,
        "per_run": per_run,
        "instances": instances,
        "arms": lambda arm: iter([arm_row(arm, arms[0])]),
    }
    for name, rows in makers.items():
        columns = COLUMNS[name]
        schema = pa.schema([(column, getattr(pa, kind)()) for column, kind in columns.items()])
        whose = [arm for arm in arms if not arm.pool] if name in {"candidates", "verdicts", "per_run"} else arms
        table = pa.Table.from_pylist([tidy(row, columns) for arm in whose for row in rows(arm)], schema=schema)
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")


def tidy(row: Row, columns: dict[str, str]) -> Row:
    assert row.keys() == columns.keys(), f"columns differ: {row.keys() ^ columns.keys()}"
    return {name: one_line(value, 2000) if isinstance(value, str) else value for name, value in row.items()}


def cells(arm: Arm) -> Iterator[tuple[str, str]]:
    return ((run, instance_id) for run in arm.runs for instance_id in arm.ids)


def candidates(arm: Arm) -> Iterator[Row]:
    for candidate in map(arm.candidates.__getitem__, cells(arm)):
        yield {
            **candidate.model_dump(
                include={"arm", "run", "seed", "instance_id", "candidate_id", "exit_status", "error"}
            ),
            **candidate.model_dump(include={"patch_sha256", "suite_sha256", "turns", "format_errors", "attempts"}),
            **candidate.model_dump(include={"cpu_seconds", "wall_seconds"}),
            **candidate.usage.model_dump(),
            "patch_chars": len(candidate.patch),
            "fail_to_pass": len(candidate.suite.fail_to_pass),
            "pass_to_pass": len(candidate.suite.pass_to_pass),
            "phases": len(candidate.phases),
            "warnings": "; ".join(candidate.warnings),
        }


def verdicts(arm: Arm) -> Iterator[Row]:
    for run, instance_id in cells(arm):
        verdict = arm.verdicts[run, instance_id]
        yield {
            **verdict.model_dump(exclude={"schema_version", "fail_to_pass_failed", "pass_to_pass_failed"}),
            "arm": arm.name,
            "run": run,
            "candidate_id": arm.candidates[run, instance_id].candidate_id,
            "resolved": verdict.resolved,
            "fail_to_pass_failed": len(verdict.fail_to_pass_failed),
            "pass_to_pass_failed": len(verdict.pass_to_pass_failed),
        }


def picks(arm: Arm) -> Iterator[Row]:
    for selector, rows in arm.picks.items():
        for pick, verdict in ((rows[i].pick, rows[i].verdict) for i in arm.ids):
            yield {
                **pick.model_dump(include={"arm", "selector", "instance_id", "run", "patch_sha256", "reason"}),
                "score": pick.scores.get(pick.patch_sha256 or ""),
                "tied": len(pick.tied),
                "resolved": solved(verdict),
                "category": verdict.category if verdict else None,
                "arm": arm.name,
                "selector": selector,
            }


def matrix(arm: Arm) -> Iterator[Row]:
    for instance in (arm.matrices[i] for i in arm.ids if i in arm.matrices):
        patch_runs = {patch.patch_sha256: patch.runs for patch in instance.patches}
        suites = {suite.suite_sha256: suite for suite in instance.suites}
        for patch, row in instance.outcomes.items():
            for suite, outcomes in row.items():
                kinds = {test.id: test.kind for test in suites[suite].tests}
                for test, status in outcomes.items():
                    yield matrix_row(arm, instance.instance_id, patch, patch_runs[patch], suite, suites[suite].runs) | {
                        "kind": kinds[test],
                        "test": test,
                        "status": status,
                    }


def matrix_row(
    arm: Arm, instance_id: str, patch: str, patch_runs: tuple[str, ...], suite: str, suite_runs: tuple[str, ...]
) -> Row:
    return {
        "arm": arm.name,
        "instance_id": instance_id,
        "patch_sha256": patch,
        "patch_runs": " ".join(patch_runs),
        "suite_sha256": suite,
        "suite_runs": " ".join(suite_runs),
        "own": bool(set(patch_runs) & set(suite_runs)),
    }


def per_run(arm: Arm) -> Iterator[Row]:
    for run in arm.runs:
        made = [arm.candidates[run, i] for i in arm.ids]
        resolved = sum(arm.resolved(run, i) for i in arm.ids)
        infra = sum(arm.is_infra(run, i) for i in arm.ids)
        valid = len(made) - infra
        yield {
            "arm": arm.name,
            "run": run,
            "instances": len(made),
            "valid": valid,
            "resolved": resolved,
            "rate": resolved / len(made),
            "rate_valid": resolved / valid if valid else None,
            "empty": sum(not candidate.patch for candidate in made),
            "infra": infra,
            "turns_mean": sum(candidate.turns for candidate in made) / len(made),
            "prompt_tokens": sum(candidate.usage.prompt_tokens for candidate in made),
            "completion_tokens": sum(candidate.usage.completion_tokens for candidate in made),
            "cpu_seconds": sum(candidate.cpu_seconds for candidate in made),
            "wall_seconds": sum(candidate.wall_seconds for candidate in made),
        }


def instances(arm: Arm) -> Iterator[Row]:
    for instance in arm.instances:
        i = instance.instance_id
        suites = arm.matrices[i].suites if i in arm.matrices else ()
        distinct = arm.distinct(i)
        yield {
            "arm": arm.name,
            "instance_id": i,
            "repo": instance.issue.repo,
            "split": instance.split,
            "runs": len(arm.runs),
            "resolved_runs": sum(arm.resolved(run, i) for run in arm.runs),
            "distinct_patches": len(distinct),
            "resolving_patches": sum(any(arm.resolved(run, i) for run in runs) for runs in distinct.values()),
            "admitted_suites": sum(suite.admitted for suite in suites),
            "rejected_suites": sum(not suite.admitted for suite in suites),
            "environment": instance.environment.key,
            "tree": instance.tree,
        }
