"""What every part of a rollout of the phases agent works with."""

from collections.abc import Sequence
from dataclasses import dataclass

from uchide.agents.phases.prompts import Prompts
from uchide.agents.phases.spec import PhasesSpec
from uchide.agents.session import Session
from uchide.agents.trajectory import CallRecord, MessageRecord, ToolCallRecord
from uchide.protocols import ChatReply, Message


@dataclass(frozen=True)
class Runtime:
    """The active spec, its templates, and the rollout in flight."""

    spec: PhasesSpec
    prompts: Prompts
    session: Session

    def record_call(
        self, role: str, name: str, visit: int, messages: Sequence[Message], reply: ChatReply, *, ahead: int = 0
    ) -> None:
        """Write a request outside the conversation into the trajectory. It belongs to the turn in hand, or to one
        that is `ahead` of it."""
        self.session.trajectory.write(
            CallRecord(
                turn=self.session.turns + ahead,
                phase=name,
                visit=visit,
                role=role,
                messages=tuple(map(MessageRecord.of, messages)),
                reply=reply.text,
                tool_calls=tuple(ToolCallRecord(**vars(call)) for call in reply.tool_calls),
                usage=reply.usage,
                t=round(self.session.elapsed(), 3),
            )
        )
