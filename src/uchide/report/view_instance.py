"""One instance as the page shows it: its issue, its patches with their verdicts, its matrix and its trajectories."""

from collections.abc import Callable
from dataclasses import dataclass

from uchide.records import Candidate, Issue, Verdict
from uchide.report.diff import DiffView, view_diff
from uchide.report.linked import Arm
from uchide.report.trajectory import TrajectoryView
from uchide.report.view_matrix import MatrixView, is_tied, view_matrix
from uchide.report.visible import clip, one_line

ISSUE_CHARS, MESSAGE_CHARS, REPORT_CHARS = 12_000, 2_000, 3_000

Load = Callable[[Candidate], TrajectoryView | None]


@dataclass(frozen=True)
class PatchView:
    """One distinct patch. `label` is `P1`, `P2`, ... in run order."""

    label: str
    sha256: str
    runs: tuple[str, ...]
    chars: int
    verdicts: tuple[Verdict, ...]
    """One, unless the grader answered differently for different runs."""
    failed: tuple[str, ...]
    message: str
    picked_by: tuple[str, ...]
    tied: bool
    diff: DiffView


@dataclass(frozen=True)
class RunView:
    """One candidate of the instance."""

    run: str
    anchor: str
    candidate: Candidate
    verdict: Verdict
    patch: str
    """Label of its patch; empty when it made none."""
    report: str
    trajectory: TrajectoryView | None


@dataclass(frozen=True)
class InstanceView:
    """Everything the page says about one instance."""

    anchor: str
    instance_id: str
    issue: Issue
    issue_text: str
    resolved_runs: int
    reasons: tuple[tuple[str, str], ...]
    """(selector, why it chose or abstained)."""
    patches: tuple[PatchView, ...]
    matrix: MatrixView | None
    runs: tuple[RunView, ...]


def view_instance(arm: Arm, index: int, anchor: str, headline: str | None, load: Load) -> InstanceView:
    """The view of instance number `index`; `load` finds a candidate's trajectory."""
    issue = arm.instances[index].issue
    instance_id = issue.instance_id
    labels = {sha: f"P{n}" for n, sha in enumerate(arm.distinct(instance_id), start=1)}
    matrix = arm.matrices.get(instance_id)
    picks = {selector: rows[instance_id].pick for selector, rows in arm.picks.items()}
    return InstanceView(
        anchor=anchor,
        instance_id=instance_id,
        issue=issue,
        issue_text=clip(issue.problem_statement, ISSUE_CHARS),
        resolved_runs=sum(arm.resolved(run, instance_id) for run in arm.runs),
        reasons=tuple((name, one_line(pick.reason, 300)) for name, pick in picks.items() if pick.reason),
        patches=tuple(view_patch(arm, instance_id, sha, label, headline) for sha, label in labels.items()),
        matrix=view_matrix(arm, matrix, labels, headline) if matrix else None,
        runs=tuple(
            view_run(arm, instance_id, run, f"{anchor}-r{n}", labels, load) for n, run in enumerate(arm.runs, start=1)
        ),
    )


def view_patch(arm: Arm, instance_id: str, sha: str, label: str, headline: str | None) -> PatchView:
    runs = arm.distinct(instance_id)[sha]
    verdicts = {arm.verdicts[run, instance_id].category: arm.verdicts[run, instance_id] for run in runs}
    first = next(iter(verdicts.values()))
    patch = arm.candidates[runs[0], instance_id].patch
    return PatchView(
        label=label,
        sha256=sha,
        runs=runs,
        chars=len(patch),
        verdicts=tuple(verdicts.values()),
        failed=(*first.fail_to_pass_failed, *first.pass_to_pass_failed),
        message=clip(first.message, MESSAGE_CHARS),
        picked_by=tuple(s for s, rows in arm.picks.items() if rows[instance_id].pick.patch_sha256 == sha),
        tied=headline is not None and is_tied(arm, headline, instance_id, sha),
        diff=view_diff(patch),
    )


def view_run(arm: Arm, instance_id: str, run: str, anchor: str, labels: dict[str, str], load: Load) -> RunView:
    candidate = arm.candidates[run, instance_id]
    return RunView(
        run=run,
        anchor=anchor,
        candidate=candidate,
        verdict=arm.verdicts[run, instance_id],
        patch=labels.get(candidate.patch_sha256, ""),
        report=clip(candidate.report, REPORT_CHARS),
        trajectory=load(candidate),
    )
