"""Does an instance behave as its row says? Its gold patch resolves it, and the unpatched tree does not."""

from pathlib import Path

from uchide.protocols import Grader, GradeRequest
from uchide.records import HiddenInstance, Preflight, PublicInstance, Verdict


async def preflight(
    instance: PublicInstance,
    hidden: HiddenInstance,
    grader: Grader,
    *,
    tree: Path,
    environment: Path,
    python_home: Path,
) -> Preflight:
    """Grade the gold patch and no patch at all."""

    async def grade(patch: str) -> Verdict:
        request = GradeRequest(instance, hidden, patch, tree, environment, python_home, force=True)
        return await grader.grade(request)

    gold, empty = await grade(hidden.gold_patch), await grade("")
    reason = _fault(hidden, gold, empty)
    return Preflight(instance_id=instance.instance_id, ok=not reason, reason=reason, gold=gold, empty=empty)


def _fault(hidden: HiddenInstance, gold: Verdict, empty: Verdict) -> str:
    if not hidden.fail_to_pass:
        return "it has no FAIL_TO_PASS test"
    for what, verdict in (("gold patch", gold), ("unpatched tree", empty)):
        if verdict.category == "infra":
            return f"the {what} could not be graded"
    if not gold.resolved:
        return f"the gold patch does not resolve it ({gold.category})"
    if passing := sorted(set(hidden.fail_to_pass) - set(empty.fail_to_pass_failed)):
        shown = ", ".join(passing[:3]) + (" ..." if len(passing) > 3 else "")
        return f"{len(passing)} FAIL_TO_PASS test(s) pass on the unpatched tree: {shown}"
    return ""
