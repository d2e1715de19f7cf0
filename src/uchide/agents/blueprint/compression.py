"""The messages of a conversation, and their compression: a summary by the model in place of all but the last turns."""

from typing import Literal

from uchide.agents.blueprint.spec import Compression
from uchide.agents.blueprint.work import Work
from uchide.agents.context import Budget, answer_room
from uchide.agents.observation import shorten
from uchide.agents.session import RolloutEnded
from uchide.agents.trajectory import CallRecord, ContextRecord, MessageRecord
from uchide.errors import ContextOverflow
from uchide.protocols import ChatReply, Message

_TEXT_CHARS = 6000
"""Of one message, in what a summary is made from; less where even that is too long for the model."""
_LEAST_CHARS = 200


class Compressor:
    """What one conversation sends: its opening, perhaps a summary, and whole turns."""

    def __init__(self, work: Work, name: str, visit: int, opening: list[Message], rule: Compression | None) -> None:
        self.messages: list[Message] = list(opening)
        self._work = work
        self._name = name
        self._visit = visit
        self._opening = opening
        self._rule = rule
        self._summary = ""
        self._turns: list[list[Message]] = []
        self._budget: Budget | None = None

    async def begin(self) -> None:
        """Record the opening."""
        session = self._work.session
        told = session.limits.context_tokens
        window = told if told is not None else await session.model.window(self._name)
        self._budget = Budget(window, answer_room(window, session.sampling.max_tokens))
        self._rebuilt("enter")

    def grow(self, turn: list[Message]) -> None:
        """A turn was taken."""
        self._turns.append(turn)
        self.messages += turn
        if self._budget:
            self._budget.grew(turn[1:])

    def replied(self, reply: ChatReply) -> None:
        """The messages were sent and answered."""
        if self._budget:
            self._budget.replied(reply)

    async def make_room(self) -> None:
        """Compress where the rule, or the model's window, asks for it."""
        if self._rule and len(self._turns) > self._rule.after:
            await self._compress(self._rule.keep)
        while self._budget and self._turns and self._budget.over():
            await self._compress(self._shorter())

    async def overflowed(self) -> None:
        """The model refused the messages as too long. Raises RolloutEnded when there is nothing left to compress."""
        if self._budget:
            self._budget.refused()
        if not self._turns:
            raise RolloutEnded("context_exceeded")
        await self._compress(self._shorter())

    def _shorter(self) -> int:
        """Turns to keep when it has to become shorter, whatever it takes."""
        keep = self._rule.keep if self._rule else Compression().keep
        return min(keep, len(self._turns) // 2)

    async def _compress(self, keep: int) -> None:
        old = self._turns[: len(self._turns) - keep]
        self._summary = await self._summarise([message for turn in old for message in turn])
        self._turns = self._turns[len(old) :]
        system, user = self._opening
        text = self._work.prompts.render("summary_given.md", opening=user.content, summary=self._summary)
        recent = [message for turn in self._turns for message in turn]
        self.messages = [system, Message("user", text), *recent]
        self._rebuilt("compaction")

    async def _summarise(self, old: list[Message]) -> str:
        """The model's own account of these messages and of the summary before them."""
        chars = _TEXT_CHARS
        while True:
            shown = [{"role": message.role, "text": shorten(_text(message), chars)} for message in old]
            request = self._work.prompts.render(
                "summary_request.md", task=shorten(self._opening[1].content, chars), summary=self._summary, turns=shown
            )
            messages = [Message("system", self._work.prompts.render("summary_system.md")), Message("user", request)]
            try:
                return await self._call(messages)
            except ContextOverflow:
                if chars <= _LEAST_CHARS:
                    raise RolloutEnded("context_exceeded") from None
                chars = max(_LEAST_CHARS, chars // 4)

    async def _call(self, messages: list[Message]) -> str:
        session = self._work.session
        reply = await session.ask(messages, place=self._name, role="summary", is_turn=False)
        self._work.record(
            CallRecord(
                turn=session.turns + 1,
                phase=self._name,
                visit=self._visit,
                role="summary",
                messages=tuple(map(MessageRecord.of, messages)),
                reply=reply.text,
                usage=reply.usage,
                t=round(session.elapsed(), 3),
            )
        )
        return reply.text.strip() or "(the summary is empty)"

    def _rebuilt(self, reason: Literal["enter", "compaction"]) -> None:
        if self._budget:
            self._budget.rebuilt(self.messages)
        self._work.record(
            ContextRecord(
                phase=self._name,
                visit=self._visit,
                reason=reason,
                messages=tuple(map(MessageRecord.of, self.messages)),
            )
        )


def _text(message: Message) -> str:
    calls = [f"[{call.name} {call.arguments}]" for call in message.tool_calls]
    return "\n".join(part for part in (message.content, *calls) if part)
