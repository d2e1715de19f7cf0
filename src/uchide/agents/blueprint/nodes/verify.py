"""VERIFY: run every test, count, and decide. No model call."""

import base64

from uchide.agents.blueprint import runs
from uchide.agents.blueprint.keeping import keep, put_back
from uchide.agents.blueprint.state import AgentState, Attempt, BestAttempt
from uchide.agents.blueprint.work import NodeResult, Work

NAME = "VERIFY"


async def run(state: AgentState, work: Work) -> NodeResult:
    """All pass: END. Attempts used up: END with the tree of the best one. Something broke: GATHER_CONTEXT. Else, what
    is unmet: IMPLEMENT."""
    own = await runs.each_alone(work, state.repro_tests)
    watched = await runs.regression(work, state.regression_tests or ())
    judged = state.update({"todo_list": runs.todo(own | watched, state.repro_tests)})
    attempt = Attempt(
        number=len(state.attempts) + 1,
        passing=sum(test.passes for test in judged.todo_list),
        total=len(judged.todo_list),
        unmet=tuple(test.id for test in judged.unmet),
        regressed=tuple(test.id for test in judged.regressions),
    )
    best = await _best(state, attempt, work)
    update = {"todo_list": judged.todo_list, "attempts": (*state.attempts, attempt), "best": best}
    memo = f"attempt {attempt.number}: {attempt.passing} of {attempt.total} tests pass"
    if attempt.passing == attempt.total:
        return NodeResult("END", "all_pass", {**update, "kept_attempt": attempt.number}, memo)
    if attempt.number >= work.spec.attempts:
        kept = await restore_best(best, attempt.number, work)
        return NodeResult("END", "attempts_exhausted", {**update, "kept_attempt": kept}, memo)
    if attempt.regressed:
        return NodeResult("GATHER_CONTEXT", "regressed", update, memo)
    return NodeResult("IMPLEMENT", "unmet", update, memo)


async def _best(state: AgentState, attempt: Attempt, work: Work) -> BestAttempt | None:
    """The attempt with most tests passing, the earlier one of equals."""
    if state.best is not None and attempt.passing <= state.best.attempt.passing:
        return state.best
    tree = await keep(work, f"attempt {attempt.number}")
    return state.best if tree is None else BestAttempt(attempt=attempt, tree=base64.b64encode(tree).decode())


async def restore_best(best: BestAttempt | None, current: int, work: Work) -> int:
    """Make the work tree that of the best attempt; the number of the attempt it is of now."""
    if best is None or best.attempt.number == current:
        return current
    done = await put_back(work, base64.b64decode(best.tree), f"attempt {best.attempt.number}")
    return best.attempt.number if done else current
