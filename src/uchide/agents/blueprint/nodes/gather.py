"""GATHER_CONTEXT: read the files that the failing output leads to, and keep notes on them."""

from collections.abc import Sequence

from uchide.agents.blueprint import baseline, reading
from uchide.agents.blueprint.keeping import keep, put_back
from uchide.agents.blueprint.state import AgentState, GatherQueue, TodoTest
from uchide.agents.blueprint.subsession import Subsession
from uchide.agents.blueprint.toolset import Bench
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.patches import is_test_path

NAME = "GATHER_CONTEXT"


async def run(state: AgentState, work: Work) -> NodeResult:
    """Notes are all that this node leaves: the tree is put back as it was. On the first visit, before anything is
    repaired, the regression tests are chosen by what was read, and measured."""
    failing: Sequence[TodoTest] = state.regressions or state.unmet
    queue = await reading.seeded(work.session.sandbox, [test.traceback for test in failing])
    before = await keep(work, "the tree before GATHER_CONTEXT")
    opening = work.prompts.opening(work.session.task, state, NAME, failing=failing, queue=queue)
    bench = Bench(work.session, queue)

    async def check(now: Bench) -> str:
        return work.prompts.render("check_gather.md", **fault) if (fault := _fault(now.queue, state)) else ""

    finished = await Subsession(work, state, NAME, opening, bench, check).run()
    gathered = bench.queue or queue
    if before is not None and await keep(work, "the tree after GATHER_CONTEXT") != before:
        await put_back(work, before, "the tree before GATHER_CONTEXT")
    context = reading.bundle(gathered, state.context)
    update: dict[str, object] = {"queue": gathered, "context": context}
    if state.regression_tests is None:
        update |= await baseline.measure(work, state, [file.path for file in context.files])
    decided = "gathered" if finished.how == "answered" else "turn_limit"
    return NodeResult("IMPLEMENT", decided, update, f"{len(gathered.notes)} notes on {len(context.files)} files")


def _fault(queue: GatherQueue | None, state: AgentState) -> dict[str, object] | None:
    """What is still owed, as values for the prompt."""
    queue = queue or GatherQueue()
    if queue.queue:
        return {"left": queue.queue, "notes": len(queue.notes)}
    relevant = [note for note in queue.notes if note.relevant]
    of_tests = [note for note in relevant if is_test_path(note.path) or note.path in state.repro_files]
    if len(of_tests) == len(relevant):
        return {"left": (), "notes": len(relevant)}
    return None
