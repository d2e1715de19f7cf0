"""Walks the graph of phases: enters them, leaves them by declared edges only, and hands over between them."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

from uchide.actions import FormatError
from uchide.agents.context import Budget, answer_room
from uchide.agents.phases.compaction import summarise
from uchide.agents.phases.conversation import Conversation
from uchide.agents.phases.prompts import Prompts
from uchide.agents.phases.runtime import Runtime
from uchide.agents.phases.share import Share
from uchide.agents.phases.spec import DIFF, PhaseSpec, PhasesSpec
from uchide.agents.phases.turns import COMPLETE, GIVEUP, HANDOVER, Turn
from uchide.agents.session import RolloutEnded, Session
from uchide.agents.trajectory import ContextRecord, MessageRecord, PhaseExit, PhaseRecord
from uchide.errors import ContextOverflow
from uchide.protocols import Message
from uchide.records import ExitStatus


@dataclass(frozen=True)
class Left:
    """How a visit ended: the kind of exit, the memo the model gave with it (empty: none), and what to hand over when
    it gives none even when asked."""

    kind: PhaseExit
    memo: str = ""
    fallback: str = ""


def _read_first(spec: PhasesSpec) -> list[str]:
    """Names of the memos and products of a spec."""
    products = [name for phase in spec.phases.values() for name in (*phase.due, *phase.optional) if name != DIFF]
    return list(dict.fromkeys([*(f"{name}.md" for name in spec.phases), *products]))


class PhasesRun:
    """One rollout of the phases agent."""

    def __init__(self, spec: PhasesSpec, prompts: Prompts, session: Session) -> None:
        self._runtime = Runtime(spec, prompts, session)
        self._spec = spec
        self._session = session
        self._remembers = spec.mechanisms.handover
        self._budgets: dict[str, Budget] = {}
        self._share = Share(session.sandbox, _read_first(spec))
        self._visits: Counter[str] = Counter()
        self._memos: defaultdict[str, str] = defaultdict(str)
        self._kept = ""
        """The last memo that this visit put into the share as it went on."""

    async def run(self) -> ExitStatus:
        """Walk until a phase without successor completes or a limit ends it."""
        await self._share.update()
        name: str | None = self._spec.initial
        try:
            while name is not None:
                name = await self._phase(name)
        except RolloutEnded as end:
            return end.status
        return "completed"

    async def _phase(self, name: str) -> str | None:
        """One visit; gives the next phase."""
        self._visits[name] += 1
        self._session.phases.append(name)
        self._kept = ""
        start, phase = self._session.turns, self._spec.phases[name]
        conversation = await self._enter(name)
        try:
            left = await self._visit(conversation, phase)
            following = phase.on_complete if left.kind == "complete" else phase.on_giveup
            memo = await self._hand_over(conversation, left, following)
        except RolloutEnded:
            conversation.close()
            await self._record_exit(name, "ended", None, start, "")
            raise
        if following is not None and not self._may_enter(following):
            await self._record_exit(name, left.kind, None, start, memo)
            raise RolloutEnded("gave_up" if following == name else "visit_limit")
        await self._record_exit(name, left.kind, following, start, memo)
        return following

    def _may_enter(self, name: str) -> bool:
        spent = self._visits.total() >= self._spec.limits.phase_visits
        return not spent and self._visits[name] < self._spec.phases[name].visits

    async def _enter(self, name: str) -> Conversation:
        """A fresh conversation of a phase. What is known of a phase's context outlasts its visits."""
        role = self._spec.role
        if name not in self._budgets:
            window = self._spec.limits.context_tokens or await self._session.model.window(name, role)
            answer = answer_room(window, self._spec.sampling_of(role).max_tokens)
            self._budgets[name] = Budget(window, answer)
        budget = self._budgets[name]
        return Conversation(self._runtime, name, self._visits[name], budget, self._opening(name, "enter", budget))

    def _opening(
        self, name: str, reason: Literal["enter", "handover", "compaction"], budget: Budget, sofar: str = ""
    ) -> list[Message]:
        """The messages that a conversation begins with, as recorded."""
        phase, visit, session = self._spec.phases[name], self._visits[name], self._session
        tools = tuple(tool for tool in session.tools if tool in phase.tools or tool in session.model.tools)
        budget.rebuilt([])
        messages = self._runtime.prompts.opening(
            session.task, name, visit, tools, self._share, room=budget.room(), sofar=sofar
        )
        session.trajectory.write(
            ContextRecord(
                phase=name,
                visit=visit,
                role=self._spec.role,
                reason=reason,
                messages=tuple(map(MessageRecord.of, messages)),
            )
        )
        return messages

    async def _ask(self, conversation: Conversation) -> Turn | FormatError:
        """The next reply. A conversation that is too long is compacted first; one that cannot be ends the rollout."""
        if conversation.full:
            await self._compact(conversation)
        try:
            return await conversation.ask()
        except ContextOverflow:
            await self._compact(conversation, refused=True)
        try:
            return await conversation.ask()
        except ContextOverflow:
            raise RolloutEnded("context_exceeded") from None

    async def _compact(self, conversation: Conversation, *, refused: bool = False) -> None:
        """Rebuild the conversation from a memo. Raises RolloutEnded when it holds nothing that could be dropped, or is
        still too long."""
        if not conversation.turns:
            raise RolloutEnded("context_exceeded")
        name, budget, prompts = conversation.name, conversation.budget, self._runtime.prompts
        await self._share.update()
        if refused:
            budget.refused()
        asked = await summarise(self._runtime, conversation) if self._remembers and not refused else ""
        memo = asked or prompts.summary(conversation.journal.steps, self._share.memo(name) if self._remembers else "")
        if self._remembers:
            await self._remember(name, memo)
        conversation.restart(self._opening(name, "compaction", budget, "" if self._remembers else memo))
        if budget.over():
            raise RolloutEnded("context_exceeded")

    async def _visit(self, conversation: Conversation, phase: PhaseSpec) -> Left:
        """Turns until the phase is left. `conversation` is rebuilt in place at a handover."""
        for number in range(1, phase.turns + 1):
            turn = await self._ask(conversation)
            if isinstance(turn, FormatError):
                conversation.refuse(turn)
            elif turn.token == COMPLETE:
                await conversation.act(turn)
                if missing := await self._share.missing(phase.due, self._session.base_tree):
                    conversation.reject(turn, missing)
                else:
                    return Left("complete", await self._memo(conversation.name, turn), turn.thought)
            elif turn.token == GIVEUP:
                await conversation.act(turn)
                return Left("giveup", await self._memo(conversation.name, turn), turn.thought)
            elif turn.token == HANDOVER:
                await self._continue(conversation, turn)
            else:
                await conversation.act(turn)
                if number < phase.turns:
                    conversation.observe()
        return Left("turn_limit", fallback=conversation.last_thought)

    async def _continue(self, conversation: Conversation, turn: Turn) -> None:
        """HANDOVER inside a phase: keep the memo and start the conversation anew."""
        await conversation.act(turn)
        memo = await self._memo(conversation.name, turn)
        if not memo:
            conversation.reject(turn, (f"{conversation.name}.md",))
            return
        conversation.close()
        await self._remember(conversation.name, memo)
        conversation.restart(self._opening(conversation.name, "handover", conversation.budget))

    async def _memo(self, name: str, turn: Turn) -> str:
        """The memo of a turn: the phase's memo file if the model wrote it anew, else the text of its answer."""
        if not self._remembers:
            return ""
        await self._share.update()
        now = self._share.memo(name)
        return now if now != self._memos[name] else turn.answer

    async def _hand_over(self, conversation: Conversation, left: Left, following: str | None) -> str:
        """Make sure that the phase's memo is in the share, asking for it once if need be; gives it."""
        if not self._remembers:
            conversation.close()
            return ""
        name, memo = conversation.name, left.memo
        if not memo and following is not None:
            request = self._runtime.prompts.memo_request(name, left.kind, following)
            turn = await conversation.ask_for_memo(request)
            memo = (await self._memo(name, turn) or turn.thought) if turn else ""
        conversation.close()
        memo = memo or await self._saved(name) or left.fallback or f"(no memo; the phase ended by {left.kind})"
        await self._keep(name, memo)
        return memo

    async def _saved(self, name: str) -> str:
        """The memo that this visit has put into the share so far; empty when there is none."""
        await self._share.update()
        now = self._share.memo(name)
        return now if now != self._memos[name] else self._kept

    async def _remember(self, name: str, memo: str) -> None:
        """Keep the memo of a phase that goes on."""
        self._kept = memo
        await self._keep(name, memo)
        await self._share.update()
        self._memos[name] = self._share.memo(name)

    async def _keep(self, name: str, memo: str) -> None:
        if memo != self._share.memo(name):
            await self._share.write_memo(name, memo)

    async def _record_exit(self, name: str, kind: PhaseExit, following: str | None, start: int, memo: str) -> None:
        share = await self._share.archive()
        self._memos[name] = self._share.memo(name)
        self._session.trajectory.write(
            PhaseRecord(
                phase=name,
                visit=self._visits[name],
                exit=kind,
                next=following,
                turns=self._session.turns - start,
                memo=memo,
                share=share,
            )
        )
