"""IMPLEMENT: one attempt at the repair, by the model."""

from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.subsession import Subsession, no_check
from uchide.agents.blueprint.toolset import Bench
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.agents.observation import shorten
from uchide.errors import PatchError
from uchide.patches import collect

NAME = "IMPLEMENT"
_DIFF_CHARS = 20_000


async def run(state: AgentState, work: Work) -> NodeResult:
    """The first attempt begins with the failing tests and their tracebacks; later ones also with what broke, and the
    diff so far. Whether the attempt is any good is for VERIFY to say."""
    attempt = len(state.attempts) + 1
    diff = await _diff(work) if attempt > 1 else ""
    opening = work.prompts.opening(
        work.session.task, state, NAME, attempt=attempt, attempts=work.spec.attempts, diff=shorten(diff, _DIFF_CHARS)
    )
    finished = await Subsession(work, state, NAME, opening, Bench(work.session), no_check).run()
    decided = "implemented" if finished.how == "answered" else "turn_limit"
    return NodeResult("VERIFY", decided, {}, shorten(finished.text, 2000))


async def _diff(work: Work) -> str:
    try:
        return (await collect(work.session.sandbox, work.session.base_tree)).patch
    except PatchError as error:
        return f"(the diff cannot be shown: {error.message})"
