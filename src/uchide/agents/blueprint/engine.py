"""Walks the graph of nodes: runs one, takes only a declared edge to the next, saves everything after each."""

from uchide.agents.blueprint import tree
from uchide.agents.blueprint.keeping import keep, put_back_all_but_tests, warn
from uchide.agents.blueprint.nodes import NODES
from uchide.agents.blueprint.nodes.end import write_products
from uchide.agents.blueprint.nodes.verify import restore_best
from uchide.agents.blueprint.prompts import Prompts
from uchide.agents.blueprint.spec import BlueprintSpec
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.agents.checkpoint import Checkpoint, Counters, Saved
from uchide.agents.phases.share import Share
from uchide.agents.session import RolloutEnded, Session
from uchide.agents.trajectory import PhaseRecord, TrajectoryRecord
from uchide.errors import ConfigError, PatchError, SandboxError
from uchide.records import ExitStatus


class Engine:
    """One rollout of the blueprint agent; `checkpoint` None makes it one that cannot be resumed."""

    def __init__(self, spec: BlueprintSpec, prompts: Prompts, session: Session, checkpoint: Checkpoint | None) -> None:
        self._work = Work(session, spec, prompts, self._record)
        self._edges = set(spec.edges())
        self._checkpoint = checkpoint
        self._share = Share(session.sandbox)
        self._unsaved: list[TrajectoryRecord] = []

    async def run(self) -> ExitStatus:
        """From the last finished node, if there is one, to END or to a limit."""
        state = await self._resume() or AgentState()
        while state.current_node:
            try:
                state = await self._step(state)
            except RolloutEnded as end:
                await self._cut_short(state, end.status)
                return end.status
        return "completed"

    async def _step(self, state: AgentState) -> AgentState:
        """Run one node; the state after it."""
        work, name = self._work, state.current_node
        entered = state.update({"visits": {**state.visits, name: state.visits.get(name, 0) + 1}})
        work.session.phases.append(name)
        start = work.session.turns
        try:
            result = await NODES[name](entered, work)
        except RolloutEnded:
            await self._left(entered, "ended", None, start, "")
            raise
        self._check_edge(name, result)
        following = entered.update({**result.state_update, "current_node": result.next_node})
        await self._left(entered, result.decided, result.next_node or None, start, result.memo)
        await self._save(following)
        return following

    def _check_edge(self, name: str, result: NodeResult) -> None:
        last = not self._work.spec.nodes[name].edges and not result.next_node
        if not last and (name, result.decided, result.next_node) not in self._edges:
            raise ConfigError(
                f"agent.nodes.{name}.edges: {name} decided {result.decided!r} and goes to {result.next_node!r}, "
                "which is no declared edge",
                hint="the built-in edges are those the code of the nodes takes",
            )

    async def _left(self, state: AgentState, decided: str, following: str | None, start: int, memo: str) -> None:
        name = state.current_node
        self._record(
            PhaseRecord(
                phase=name,
                visit=state.visits[name],
                exit=decided or "complete",
                next=following,
                turns=self._work.session.turns - start,
                memo=memo,
                share=await self._share.archive(),
            )
        )

    async def _cut_short(self, state: AgentState, status: ExitStatus) -> None:
        """A limit ended the rollout: leave the best attempt that was judged, and the lists."""
        if state.best is not None:
            kept = await restore_best(state.best, 0, self._work)
            state = state.update({"kept_attempt": kept})
        elif not state.attempts:
            await put_back_all_but_tests(self._work)  # a limit before any attempt: what is left is no repair
        await write_products(state, self._work, status)

    def _record(self, record: TrajectoryRecord) -> None:
        self._work.session.trajectory.write(record)
        self._unsaved.append(record)

    async def _save(self, state: AgentState) -> None:
        if self._checkpoint is None:
            return
        session = self._work.session
        kept = await keep(self._work, "a checkpoint")
        share = await self._packed_share()
        if kept is None or share is None:
            return  # the records stay unsaved: the next node that can be kept saves them too
        files = {"tree": kept, "share": share}
        self._checkpoint.save(state.to_dict(), Counters.of(session), files, self._unsaved)
        self._unsaved = []

    async def _packed_share(self) -> bytes | None:
        try:
            packed = await tree.share_of(self._work.session.sandbox)
        except PatchError as error:
            warn(self._work, f"a checkpoint could not be kept: {error.message}")
            return None
        if packed is None:
            warn(self._work, "a checkpoint could not be kept: the share is too large")
        return packed

    async def _resume(self) -> AgentState | None:
        """The state to go on from, with tree, share, records and totals back in place."""
        if self._checkpoint is None:
            return None
        saved = self._checkpoint.load()
        state = await self._restored(saved, self._checkpoint) if saved is not None else None
        if self._checkpoint.notice:
            warn(self._work, self._checkpoint.notice)
        return state

    async def _restored(self, saved: Saved, checkpoint: Checkpoint) -> AgentState | None:
        session = self._work.session
        try:
            state = AgentState.from_dict(saved.state)
            kept, share = saved.files["tree"], saved.files["share"]
        except (ValueError, KeyError) as error:
            checkpoint.discard(f"it is damaged ({type(error).__name__})")
            return None
        try:
            await tree.put_share(session.sandbox, share)
            await tree.put_tree(session.sandbox, session.base_tree, kept)
        except PatchError as error:
            # The sandbox is half restored: the next try gets a fresh one, and begins anew in it.
            checkpoint.discard("its files could not be put back")
            raise SandboxError(f"the files of a checkpoint could not be put back: {error.message}") from error
        for record in saved.records:
            session.trajectory.write(record)
        saved.counters.give(session)
        await self._share.archive()
        return state
