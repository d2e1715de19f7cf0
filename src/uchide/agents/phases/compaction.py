"""A conversation that has no room left: it goes on from a memo, asked for while that still fits, else of our own."""

from dataclasses import replace
from typing import Final

from uchide.agents.phases.conversation import Conversation
from uchide.agents.phases.runtime import Runtime
from uchide.agents.phases.turns import Turn, parse_turn, without_reasoning
from uchide.errors import ContextOverflow

ROLE: Final = "summary"
MEMO_TOKENS = 2048
"""Most tokens of a memo that is asked for under pressure."""
SHORTEST = 200
"""A memo of fewer tokens is not worth asking for."""


async def summarise(runtime: Runtime, conversation: Conversation) -> str:
    """The model's memo of the conversation; empty where the request has no room or nothing readable comes back.

    The request repeats the conversation with a longer last message, so a server has nearly all of it in its cache. It
    is no turn. Raises RolloutEnded at a limit.
    """
    request = "\n\n" + runtime.prompts.summary_request(conversation.name)
    budget, session, spec = conversation.budget, runtime.session, runtime.spec
    left = budget.left(len(request))
    tokens = min(MEMO_TOKENS, budget.answer, *([] if left is None else [left]))
    if tokens < min(SHORTEST, budget.answer):
        return ""
    last = conversation.messages[-1]
    messages = [*conversation.messages[:-1], replace(last, content=last.content + request)]
    sampling = spec.sampling_of(spec.role).with_seed(session.task.seed)
    try:
        reply = await session.ask(
            messages,
            place=conversation.name,
            role=ROLE,
            sampling=replace(sampling, max_tokens=tokens),
            tools=runtime.prompts.turn_tools,
            is_turn=False,
        )
    except ContextOverflow:
        budget.refused()
        return ""
    runtime.record_call(ROLE, conversation.name, conversation.visit, messages, reply, ahead=1)
    # A model that keeps to the form of its turns has written the memo under FINAL_ANSWER.
    turn = parse_turn(reply, runtime.prompts.draft, len(spec.phases[conversation.name].workflow))
    if isinstance(turn, Turn):
        return turn.answer or turn.thought
    return without_reasoning(reply.text).strip()
