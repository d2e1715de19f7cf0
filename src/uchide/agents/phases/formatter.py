"""The second role of a turn: it writes the action that the planner drafted into the active format, and nothing else."""

from uchide.actions import FormatError
from uchide.agents.phases.runtime import Runtime
from uchide.agents.phases.turns import (
    CUT_OFF,
    HANDOVER,
    Draft,
    Turn,
    cut_exit,
    parse_draft,
    read_action,
    without_reasoning,
)
from uchide.errors import ContextOverflow
from uchide.protocols import ChatReply, Message

ROLE = "formatter"


async def format_turn(runtime: Runtime, reply: ChatReply, name: str, visit: int) -> Turn | FormatError:
    """The turn of a planner's `reply`: token, thought and memo are the planner's, the action is the formatter's.

    Raises RolloutEnded at a limit.
    """
    draft = _draft(runtime, reply, name)
    if isinstance(draft, FormatError):
        return draft
    if not draft.is_step and not _holds_action(runtime, draft, reply):
        return Turn(draft.token, draft.thought, None, draft.answer if draft.marked else "")
    answer = await _ask(runtime, reply, name, visit)
    if isinstance(answer, FormatError):
        return answer
    action = read_action(without_reasoning(answer.text), answer, runtime.prompts.format)
    if action is None:
        return FormatError("the formatter found no action in the draft")
    if isinstance(action, FormatError):
        cut = f" ({CUT_OFF})" if answer.finish_reason == "length" else ""
        return FormatError(f"the formatter made no action of the draft: {action.reason}{cut}")
    return Turn(draft.token, draft.thought, action, "")


def _draft(runtime: Runtime, reply: ChatReply, name: str) -> Draft | FormatError:
    spec = runtime.spec
    draft = parse_draft(reply.text, len(spec.phases[name].workflow), handover=spec.mechanisms.handover)
    if isinstance(draft, FormatError):
        return FormatError(f"{draft.reason} ({CUT_OFF})") if reply.finish_reason == "length" else draft
    if (cut := cut_exit(draft, reply)) is not None:
        return FormatError(f"{cut.reason} ({CUT_OFF})")
    if draft.is_step and not draft.answer and not reply.tool_calls:
        return FormatError("there is no action under FINAL_ANSWER:")
    if reply.finish_reason == "length" and (draft.is_step or _holds_action(runtime, draft, reply)):
        # Half a command is not to be completed by somebody who does not know the other half.
        return FormatError(CUT_OFF)
    return draft


def _holds_action(runtime: Runtime, draft: Draft, reply: ChatReply) -> bool:
    """Whether a turn that need not act does: a memo may quote commands, so only the format of the prompt counts."""
    return draft.token != HANDOVER and read_action(draft.answer, reply, runtime.prompts.draft) is not None


async def _ask(runtime: Runtime, reply: ChatReply, name: str, visit: int) -> ChatReply | FormatError:
    session, spec = runtime.session, runtime.spec
    calls = [f"{call.name}({call.arguments})" for call in reply.tool_calls]
    messages = [
        runtime.prompts.formatter(session.task, name, visit),
        Message("user", "\n".join((without_reasoning(reply.text).strip(), *calls))),
    ]
    try:
        answer = await session.ask(
            messages,
            place=name,
            role=ROLE,
            sampling=spec.sampling_of(ROLE).with_seed(session.task.seed),
            tools=runtime.prompts.format_tools,
            is_turn=False,
        )
    except ContextOverflow:
        return FormatError("the draft is too long for the formatter; be shorter")
    runtime.record_call(ROLE, name, visit, messages, answer)
    return answer
