"""REPRODUCE_ISSUE: what is observed and what is expected, then one failing test for each difference."""

import json

from pydantic import TypeAdapter, ValidationError

from uchide.agents.blueprint import runs
from uchide.agents.blueprint.keeping import make_usable, put_back_all_but_tests, warn
from uchide.agents.blueprint.state import AgentState, Discrepancy
from uchide.agents.blueprint.subsession import Subsession
from uchide.agents.blueprint.toolset import Bench
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.agents.reasoning import without_reasoning
from uchide.agents.session import RolloutEnded, whole
from uchide.agents.trajectory import CallRecord, MessageRecord
from uchide.errors import ContextOverflow, PatchError
from uchide.patches import changed_files
from uchide.protocols import Message
from uchide.testing.paths import is_test_file

NAME = "REPRODUCE_ISSUE"
ROLE = "discrepancies"
_TRIES = 2
_MOST = 12
_MOST_ARRAYS = 50
"""Brackets tried in one reply."""
_FAILING = frozenset({"failed", "error", "crashed", "timeout"})
_PAIRS: TypeAdapter[list[Discrepancy]] = TypeAdapter(list[Discrepancy])


async def run(state: AgentState, work: Work) -> NodeResult:
    """The tests that fail afterwards are the ones to be met; everything but new test files is put back."""
    found = state.update({"discrepancies": await _discrepancies(state, work)})
    opening = work.prompts.opening(work.session.task, found, NAME)

    async def check(_: Bench) -> str:
        files = await _new_test_files(work)
        if await runs.collect(work, files):
            return ""
        return work.prompts.render("check_reproduce.md", files=files)

    await Subsession(work, found, NAME, opening, Bench(work.session), check).run()
    files = [path for path in await put_back_all_but_tests(work) if is_test_file(path)]
    ids = (await runs.collect(work, files))[: work.spec.tests.repro]
    results = await runs.each_alone(work, ids)
    failing = tuple(test for test in ids if results[test].status in _FAILING)
    update = {
        "discrepancies": found.discrepancies,
        "repro_files": tuple(files),
        "repro_tests": failing,
        "repro_dropped": tuple(test for test in ids if test not in failing),
        "todo_list": runs.todo({test: results[test] for test in failing}, failing),
    }
    memo = f"{len(failing)} of {len(ids)} tests fail on the base tree"
    return NodeResult("GATHER_CONTEXT", "reproduced" if failing else "not_reproduced", update, memo)


async def _discrepancies(state: AgentState, work: Work) -> tuple[Discrepancy, ...]:
    """One call; one more when its answer cannot be read. After that the issue has to speak for itself."""
    prompts, session = work.prompts, work.session
    messages = [
        Message("system", prompts.render("discrepancies_system.md")),
        Message("user", prompts.render("discrepancies.md", state=state)),
    ]
    reason = ""
    for _ in range(_TRIES):
        try:
            reply = await session.ask(messages, place=NAME, role=ROLE, is_turn=False)
        except ContextOverflow:
            raise RolloutEnded("context_exceeded") from None
        record = CallRecord(
            turn=session.turns + 1,
            phase=NAME,
            visit=state.visits.get(NAME, 0),
            role=ROLE,
            messages=tuple(map(MessageRecord.of, messages)),
            reply=reply.text,
            usage=reply.usage,
            t=round(session.elapsed(), 3),
        )
        work.record(record)
        pairs = read_pairs(reply.text)
        if not isinstance(pairs, str):
            return tuple(pairs[:_MOST])
        reason = pairs
        again = prompts.render("discrepancies_again.md", reason=reason)
        messages = [*messages, Message("assistant", reply.text), Message("user", again)]
    warn(work, f"the discrepancies of the issue could not be read: {reason}")
    return ()


def read_pairs(text: str) -> list[Discrepancy] | str:
    """The JSON array in a reply, whatever stands around it, or what is wrong with the first that looks like one."""
    text, start = without_reasoning(text), -1
    faults: list[str] = []
    while (start := text.find("[", start + 1)) >= 0 and len(faults) < _MOST_ARRAYS:
        pairs = _pairs_at(text, start)
        if not isinstance(pairs, str):
            return pairs
        faults.append(pairs)
    return next(
        (fault for fault in faults if "malformed" not in fault), faults[0] if faults else "there is no JSON array"
    )


def _pairs_at(text: str, start: int) -> list[Discrepancy] | str:
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        pairs = _PAIRS.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        return f"the JSON is malformed: {error}"
    whole_pairs = [Discrepancy(observed=whole(pair.observed), expected=whole(pair.expected)) for pair in pairs]
    return whole_pairs or "the array is empty"


async def _new_test_files(work: Work) -> list[str]:
    await make_usable(work)
    try:
        changes = await changed_files(work.session.sandbox, work.session.base_tree)
    except PatchError:
        return []
    return [change.name for change in changes if change.status == "added" and is_test_file(change.name)]
