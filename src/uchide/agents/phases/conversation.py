"""One conversation within a phase: asks, executes, observes, and records each turn once.

The list of messages only grows at its end until the conversation is restarted, and no turn looks at earlier ones, so
a turn costs the same whatever came before it.
"""

from dataclasses import dataclass

from uchide.actions import FormatError
from uchide.agents.context import Budget
from uchide.agents.observation import render, returncode
from uchide.agents.phases.formatter import format_turn
from uchide.agents.phases.halves import refused_half
from uchide.agents.phases.journal import Journal
from uchide.agents.phases.runtime import Runtime
from uchide.agents.phases.turns import Turn, parse_turn
from uchide.agents.session import RolloutEnded
from uchide.agents.trajectory import ToolCallRecord, TurnRecord, exchange
from uchide.errors import ContextOverflow
from uchide.protocols import ChatReply, Command, ExecResult, Message

SHELL = ("/bin/bash", "-c")
_MARKS = 200
"""Characters of an observation beside its output."""
_ONLY_MEMO = "only the memo was asked for, as text under FINAL_ANSWER: an action is not executed here"
_WORTH_SHOWING = 400
"""Of an output, less than this says nothing: how long it was is all that is shown then."""


@dataclass
class _Pending:
    """A turn that is not recorded yet."""

    reply: ChatReply
    turn: Turn | None = None
    result: ExecResult | None = None
    format_error: str | None = None
    rejected: tuple[str, ...] = ()


class Conversation:
    """Messages of one visit of a phase with the model (the planner, where there is a formatter)."""

    def __init__(self, runtime: Runtime, name: str, visit: int, budget: Budget, messages: list[Message]) -> None:
        self.name = name
        self.visit = visit
        self.budget = budget
        self.journal = Journal()
        self.last_thought = ""
        self._runtime = runtime
        self._session = runtime.session
        self._limits = runtime.spec.limits
        self._prompts = runtime.prompts
        self._role = runtime.spec.role
        self._sampling = runtime.spec.sampling_of(self._role).with_seed(runtime.session.task.seed)
        self._errors_in_a_row = 0
        self._last_action: str | None = None
        self._repeats = 0
        self._last_code: int | str = 0
        self._failures = 0
        self._pending: _Pending | None = None
        self.restart(messages)

    def restart(self, messages: list[Message]) -> None:
        """Drop the history for these messages."""
        self.messages = messages
        self.budget.rebuilt(messages)
        self.turns = 0
        self._elided = False

    @property
    def full(self) -> bool:
        """Whether the next reply has no room, or the last output had none."""
        return self._elided or self.budget.over()

    async def ask(self) -> Turn | FormatError:
        """The next reply, read. Raises RolloutEnded at a limit, ContextOverflow when the model takes no conversation of
        this length."""
        self.close()
        reply = await self._session.ask(
            self.messages,
            place=self.name,
            role=self._role,
            sampling=self._sampling,
            tools=self._prompts.turn_tools,
        )
        self.turns += 1
        self.budget.replied(reply)
        self._pending = _Pending(reply)
        turn = await self._read(reply)
        if isinstance(turn, Turn) and turn.action is not None and not self._prompts.format.any_tool:
            turn = await refused_half(turn.action, self._session) or turn
        if not isinstance(turn, FormatError):
            self._errors_in_a_row = 0
            self._pending.turn = turn
            self.last_thought = turn.thought or self.last_thought
        return turn

    async def _read(self, reply: ChatReply) -> Turn | FormatError:
        spec = self._runtime.spec
        if not spec.mechanisms.formatter:
            steps = len(spec.phases[self.name].workflow)
            return parse_turn(reply, self._prompts.format, steps, handover=spec.mechanisms.handover)
        try:
            return await format_turn(self._runtime, reply, self.name, self.visit)
        except RolloutEnded as end:
            if self._pending is not None:
                self._pending.format_error = f"the rollout ended ({end.status}) before the formatter answered"
            raise

    async def act(self, turn: Turn) -> None:
        """Run the turn's action, if it has one."""
        if turn.action is None or self._pending is None:
            return
        self._repeats = self._repeats + 1 if turn.action == self._last_action else 1
        self._last_action = turn.action
        command = Command(
            (*SHELL, turn.action),
            timeout_s=min(self._limits.action_timeout_s, self._session.seconds_left()),
            output_limit=max(200_000, 8 * self._limits.output_chars),
        )
        result = await self._session.sandbox.run(command)
        self._pending.result = result
        code = returncode(result)
        self._failures = 0 if code == 0 else self._failures + 1 if code == self._last_code else 1
        self._last_code = code

    def observe(self) -> None:
        """Show the model what its action did."""
        self._answer(self._observation())

    def reject(self, turn: Turn, missing: tuple[str, ...]) -> None:
        """Refuse a COMPLETE whose products are missing, or a HANDOVER without a memo."""
        if self._pending is not None:
            self._pending.rejected = missing
        seen = [self._observation()] if turn.action is not None else []
        self._answer("\n\n".join((*seen, self._prompts.rejected(turn.token, missing))))

    def refuse(self, error: FormatError) -> None:
        """Record a format error and say what was wrong. Raises RolloutEnded when there were too many in a row."""
        self._session.format_errors += 1
        self._errors_in_a_row += 1
        if self._pending is not None:
            self._pending.format_error = error.reason
        self._answer(self._prompts.format_error(error.reason, self._runtime.spec.phases[self.name]))
        if self._errors_in_a_row >= self._limits.format_errors:
            raise RolloutEnded("format_errors")

    async def ask_for_memo(self, request: str) -> Turn | None:
        """One more turn, for the handover memo. None when there is no turn to answer, no room for the request, or the
        reply is unreadable or an action: after an accepted COMPLETE nothing may change any more."""
        if self._pending is None:
            return None
        seen = [self._observation()] if self._pending.result is not None else []
        text = "\n\n".join((*seen, request))
        left = self.budget.left(len(text))
        if left is not None and left < self.budget.answer:
            return None
        self._answer(text)
        try:
            turn = await self.ask()
        except ContextOverflow:
            return None
        if isinstance(turn, Turn) and turn.action is not None:
            self._pending.turn = None
            turn = FormatError(_ONLY_MEMO)
        if isinstance(turn, FormatError):
            self._pending.format_error = turn.reason
            self._session.format_errors += 1
            return None
        return turn

    def close(self) -> None:
        """Record the pending turn as the last of its conversation."""
        if self._pending is not None:
            self._record(None)

    def _observation(self) -> str:
        notes = []
        if self._repeats >= self._limits.repeats:
            notes.append(self._prompts.repeat_warning(self._repeats))
        if self._failures and self._failures % self._limits.failures == 0:
            notes.append(self._prompts.failure_warning(self._failures, self._last_code))
        if self._runtime.spec.mechanisms.handover and self.turns >= self._limits.handover_turns:
            notes.append(self._prompts.handover_request(self.name))
        result = self._pending.result if self._pending else None
        shown = [self._fitting(result, sum(map(len, notes)))] if result else []
        return "\n\n".join((*shown, *notes))

    def _fitting(self, result: ExecResult, others: int) -> str:
        """The result as far as there is room for it beside `others` characters."""
        limit, room = self._limits.output_chars, self.budget.room()
        text = render(result, limit)
        if room is None or len(text) + others <= room:
            return text
        left = min(limit, room - others - _MARKS)
        self._elided = left < _WORTH_SHOWING
        return render(result, 0 if self._elided else left)

    def _answer(self, text: str) -> None:
        if self._pending is not None:
            reply = self._pending.reply
            added = exchange(reply.text, text, reply.tool_calls)
            self.messages += added
            self.budget.grew(added[1:])
        self._record(text)

    def _record(self, observation: str | None) -> None:
        pending, session = self._pending, self._session
        self._pending = None
        if pending is None:
            return
        turn, code = pending.turn, returncode(pending.result) if pending.result else None
        self.journal.add(turn.token if turn else "", turn.thought if turn else "", turn.action if turn else None, code)
        session.trajectory.write(
            TurnRecord(
                n=session.turns,
                phase=self.name,
                visit=self.visit,
                role=self._role,
                reply=pending.reply.text,
                tool_calls=tuple(ToolCallRecord(**vars(call)) for call in pending.reply.tool_calls),
                token=turn.token if turn else "",
                tool="bash" if turn and turn.action is not None else "",
                action=turn.action if turn else None,
                returncode=code,
                observation=observation,
                format_error=pending.format_error,
                rejected=pending.rejected,
                usage=pending.reply.usage,
                t=round(session.elapsed(), 3),
            )
        )
