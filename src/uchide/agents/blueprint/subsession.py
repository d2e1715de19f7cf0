"""The conversation of a node: a loop of model call, exactly one tool call, and its result.

It ends when the model answers in plain text and the node's finish check has nothing against it, or when the node's
turns are used up. Between two rebuilds (a summary in place of old turns) its messages only grow at their end.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from uchide.actions import Call, FormatError
from uchide.agents.blueprint.compression import Compressor
from uchide.agents.blueprint.habits import Habits
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.toolset import Bench, ToolResult, call_tool, tool_specs
from uchide.agents.blueprint.work import Work
from uchide.agents.reasoning import without_reasoning
from uchide.agents.session import RolloutEnded
from uchide.agents.trajectory import ToolCallRecord, TurnRecord, exchange
from uchide.errors import ContextOverflow
from uchide.protocols import ChatReply, Message

FinishCheck = Callable[[Bench], Awaitable[str]]
"""Why the conversation may not end yet, for the model; empty when it may."""


async def no_check(_: Bench) -> str:
    """A node that lets go whenever the model is done."""
    return ""


@dataclass(frozen=True)
class Finished:
    """How a conversation ended, and the model's last words (empty when its turns were used up)."""

    how: Literal["answered", "turn_limit"]
    text: str = ""


@dataclass
class _Turn:
    reply: ChatReply
    call: Call | None = None
    result: ToolResult | None = None
    format_error: str | None = None
    refused: str = ""


class Subsession:
    """One conversation in one visit of a node."""

    def __init__(
        self, work: Work, state: AgentState, name: str, opening: list[Message], bench: Bench, check: FinishCheck
    ) -> None:
        self._work = work
        self._state = state
        self._name = name
        self._node = work.spec.nodes[name]
        self._bench = bench
        self._check = check
        self._specs = tool_specs(self._node.tools) if work.prompts.format.native else ()
        self._memory = Compressor(work, name, state.visits.get(name, 0), opening, self._node.compression)
        self._habits = Habits(work.session.limits)
        self._errors_in_a_row = 0

    async def run(self) -> Finished:
        """Turns until the end. Raises RolloutEnded at a limit, ModelError and SandboxError as they come."""
        await self._memory.begin()
        for number in range(1, self._node.turns + 1):
            turn = await self._ask()
            if turn.call is not None:
                turn.result = await call_tool(turn.call, self._node.tools, self._bench)
                self._habits.seen(turn.call, turn.result)
            elif turn.format_error is None:
                turn.refused = await self._checked(turn)
                if not turn.refused:
                    self._close(turn, None)
                    return Finished("answered", without_reasoning(turn.reply.text).strip())
            last = number == self._node.turns
            self._close(turn, None if last else self._answer(turn, number))
        return Finished("turn_limit")

    async def _checked(self, turn: _Turn) -> str:
        """What the node has against the end. A limit that is reached meanwhile does not lose the turn."""
        try:
            return await self._check(self._bench)
        except RolloutEnded:
            self._close(turn, None)
            raise

    async def _ask(self) -> _Turn:
        """The next reply, read. A context that is too long is compressed and asked again."""
        session = self._work.session
        await self._memory.make_room()
        while True:
            try:
                reply = await session.ask(self._memory.messages, place=self._name, tools=self._specs)
                break
            except ContextOverflow:
                await self._memory.overflowed()
        self._memory.replied(reply)
        turn = _Turn(reply)
        text = without_reasoning(reply.text)
        call = self._work.prompts.format.read(text, reply.tool_calls)
        if reply.finish_reason == "length":
            why = f" ({call.reason})" if isinstance(call, FormatError) else ""
            call = FormatError(f"the reply was cut off at its length limit{why}")
        elif call is None and not text.strip():
            call = FormatError("the reply is empty")
        if isinstance(call, FormatError):
            turn.format_error = call.reason
            session.format_errors += 1
            self._errors_in_a_row += 1
        else:
            turn.call = call
            self._errors_in_a_row = 0
        return turn

    def _answer(self, turn: _Turn, number: int) -> str:
        prompts = self._work.prompts
        if turn.format_error is not None:
            parts = [prompts.render("format_error.md", reason=turn.format_error, example=prompts.format.example)]
        elif turn.result is not None:
            parts = [turn.result.text, *self._warnings()]
        else:
            parts = [prompts.render("not_finished.md", reason=turn.refused)]
        if nudge := self._node.nudges.get(number):
            parts.append(prompts.nudge(nudge, self._state, self._work.session.task))
        return "\n\n".join(parts)

    def _warnings(self) -> list[str]:
        prompts, habits = self._work.prompts, self._habits
        repeating = [prompts.render("repeating.md", times=habits.repeats)] if habits.repeating else []
        failing = [prompts.render("failing.md", times=habits.failures)] if habits.failing else []
        return repeating + failing

    def _close(self, turn: _Turn, observation: str | None) -> None:
        """Record the turn, and let the conversation grow by it. Raises RolloutEnded at too many format errors."""
        session, reply = self._work.session, turn.reply
        self._work.record(
            TurnRecord(
                n=session.turns,
                phase=self._name,
                visit=self._state.visits.get(self._name, 0),
                reply=reply.text,
                tool_calls=tuple(ToolCallRecord(**vars(call)) for call in reply.tool_calls),
                tool=turn.call.name if turn.call else "",
                action=_action(turn.call) if turn.call else None,
                returncode=turn.result.code if turn.result else None,
                observation=observation,
                format_error=turn.format_error,
                rejected=(turn.refused,) if turn.refused else (),
                usage=reply.usage,
                t=round(session.elapsed(), 3),
            )
        )
        if observation is not None:
            self._memory.grow(exchange(reply.text, observation, reply.tool_calls))
        if self._errors_in_a_row >= session.limits.format_errors:
            raise RolloutEnded("format_errors")


def _action(call: Call) -> str:
    if call.name == "bash" and isinstance(command := call.arguments.get("command"), str):
        return command
    return json.dumps(dict(call.arguments), ensure_ascii=False, sort_keys=True)
