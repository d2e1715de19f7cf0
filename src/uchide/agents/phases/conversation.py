"""One conversation within a phase: asks, executes, observes, and records each turn once.

The list of messages only grows at its end until the conversation is restarted, and no turn looks at earlier ones, so
a turn costs the same whatever came before it.
"""

from dataclasses import dataclass

from uchide.actions import FormatError
from uchide.agents.observation import render, returncode
from uchide.agents.phases.prompts import Prompts
from uchide.agents.phases.spec import PhasesSpec
from uchide.agents.phases.turns import Turn, parse_turn
from uchide.agents.session import RolloutEnded, Session
from uchide.agents.trajectory import ToolCallRecord, TurnRecord, exchange
from uchide.protocols import ChatReply, Command, ExecResult, Message

SHELL = ("/bin/bash", "-c")


@dataclass
class _Pending:
    """A turn that is not recorded yet."""

    reply: ChatReply
    turn: Turn | None = None
    result: ExecResult | None = None
    format_error: str | None = None
    rejected: tuple[str, ...] = ()


class Conversation:
    """Messages of one phase with one model role."""

    def __init__(
        self, session: Session, spec: PhasesSpec, prompts: Prompts, name: str, visit: int, messages: list[Message]
    ) -> None:
        self.name = name
        self.visit = visit
        self.messages = messages
        self.last_thought = ""
        self._session = session
        self._spec = spec
        self._prompts = prompts
        self._turns = 0
        self._errors_in_a_row = 0
        self._last_action: str | None = None
        self._repeats = 0
        self._pending: _Pending | None = None

    def restart(self, messages: list[Message]) -> None:
        """Drop the history for these messages."""
        self.messages = messages
        self._turns = 0

    async def ask(self) -> Turn | FormatError:
        """The next reply, read. Raises RolloutEnded at a limit."""
        self.close()
        reply = await self._session.ask(self.messages, place=self.name)
        self._turns += 1
        self._pending = _Pending(reply)
        turn = parse_turn(reply, self._prompts.format, len(self._spec.phases[self.name].workflow))
        if not isinstance(turn, FormatError):
            self._errors_in_a_row = 0
            self._pending.turn = turn
            self.last_thought = turn.thought or self.last_thought
        return turn

    async def act(self, turn: Turn) -> None:
        """Run the turn's action, if it has one."""
        if turn.action is None or self._pending is None:
            return
        self._repeats = self._repeats + 1 if turn.action == self._last_action else 1
        self._last_action = turn.action
        limits = self._spec.limits
        command = Command(
            (*SHELL, turn.action),
            timeout_s=min(limits.action_timeout_s, self._session.seconds_left()),
            output_limit=max(200_000, 8 * limits.output_chars),
        )
        self._pending.result = await self._session.sandbox.run(command)

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
        self._answer(self._prompts.format_error(error.reason, self._spec.phases[self.name]))
        if self._errors_in_a_row >= self._spec.limits.format_errors:
            raise RolloutEnded("format_errors")

    async def ask_for_memo(self, request: str) -> Turn | None:
        """One more turn, for the handover memo. None when there is no turn to answer, or the reply is unreadable."""
        if self._pending is None:
            return None
        seen = [self._observation()] if self._pending.result is not None else []
        self._answer("\n\n".join((*seen, request)))
        turn = await self.ask()
        if isinstance(turn, FormatError):
            self._pending.format_error = turn.reason
            self._session.format_errors += 1
            return None
        await self.act(turn)
        return turn

    def close(self) -> None:
        """Record the pending turn as the last of its conversation."""
        if self._pending is not None:
            self._record(None)

    def _observation(self) -> str:
        result = self._pending.result if self._pending else None
        parts = [render(result, self._spec.limits.output_chars)] if result else []
        if self._repeats >= self._spec.limits.repeats:
            parts.append(self._prompts.repeat_warning(self._repeats))
        if self._turns >= self._spec.limits.handover_turns:
            parts.append(self._prompts.handover_request(self.name))
        return "\n\n".join(parts)

    def _answer(self, text: str) -> None:
        if self._pending is not None:
            self.messages += exchange(self._pending.reply.text, text, self._pending.reply.tool_calls)
        self._record(text)

    def _record(self, observation: str | None) -> None:
        pending, session = self._pending, self._session
        self._pending = None
        if pending is None:
            return
        session.trajectory.write(
            TurnRecord(
                n=session.turns,
                phase=self.name,
                visit=self.visit,
                reply=pending.reply.text,
                tool_calls=tuple(ToolCallRecord(**vars(call)) for call in pending.reply.tool_calls),
                token=pending.turn.token if pending.turn else "",
                tool="bash" if pending.turn and pending.turn.action is not None else "",
                action=pending.turn.action if pending.turn else None,
                returncode=returncode(pending.result) if pending.result else None,
                observation=observation,
                format_error=pending.format_error,
                rejected=pending.rejected,
                usage=pending.reply.usage,
                t=round(session.elapsed(), 3),
            )
        )
