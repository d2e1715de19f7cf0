"""One rollout in flight: the sandbox, the model and the running totals that every kind of agent needs."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from uchide.agents.limits import RolloutLimits
from uchide.agents.trajectory import TrajectoryWriter
from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message, Sampling, Sandbox, Task, ToolCall, ToolSpec
from uchide.records import ExitStatus, Usage


class RolloutEnded(Exception):
    """No error: a rollout reached one of its limits. Ends it from anywhere below; the candidate is still collected."""

    def __init__(self, status: ExitStatus) -> None:
        super().__init__(status)
        self.status = status


def add_usage(total: Usage, more: Usage) -> Usage:
    """Sum of two usages. Cached tokens stay unknown until a server counts them; one unknown cost makes all unknown."""
    cached = [count for count in (total.cached_tokens, more.cached_tokens) if count is not None]
    costs = [*([total.cost] if total.calls else []), more.cost]
    return Usage(
        calls=total.calls + max(1, more.calls),
        prompt_tokens=total.prompt_tokens + more.prompt_tokens,
        completion_tokens=total.completion_tokens + more.completion_tokens,
        cached_tokens=sum(cached) if cached else None,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


@dataclass
class Session:
    """Everything a rollout needs, and what it has used so far."""

    task: Task
    model: ChatModel
    sandbox: Sandbox
    trajectory: TrajectoryWriter
    base_tree: str
    sampling: Sampling
    limits: RolloutLimits
    tools: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    """Seconds spent waiting for a model's server to take requests again."""
    turns: int = 0
    format_errors: int = 0
    usage: Usage = field(default_factory=Usage)
    known_cost: float = 0.0
    """US dollars of the calls whose cost is known; `usage.cost` is unknown as soon as that of one call is."""
    phases: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def elapsed(self) -> float:
        """Seconds since the rollout began, without those it stood in a model's queue."""
        return time.monotonic() - self.started - self.waited

    def seconds_left(self) -> float:
        """Seconds until the rollout's wall time is up. Raises RolloutEnded("time_limit") when it is."""
        left = self.limits.wall_time_s - self.elapsed()
        if left <= 0:
            raise RolloutEnded("time_limit")
        return left

    @contextmanager
    def _paused(self, deadline: asyncio.Timeout) -> Iterator[None]:
        """Stop the rollout's clock."""
        start, left = time.monotonic(), self.seconds_left()
        deadline.reschedule(None)
        try:
            yield
        finally:
            self.waited += time.monotonic() - start
            deadline.reschedule(asyncio.get_running_loop().time() + left)

    def check(self, *, is_turn: bool = True) -> None:
        """Raises RolloutEnded when a limit of the whole rollout is reached; a call within a turn is no step."""
        limits, used = self.limits, self.usage
        if is_turn and self.turns >= limits.steps:
            raise RolloutEnded("step_limit")
        if used.prompt_tokens + used.completion_tokens >= limits.tokens:
            raise RolloutEnded("token_limit")
        if limits.cost is not None and self.known_cost >= limits.cost:
            raise RolloutEnded("cost_limit")

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        place: str,
        role: str = "agent",
        sampling: Sampling | None = None,
        tools: tuple[ToolSpec, ...] = (),
        is_turn: bool = True,
    ) -> ChatReply:
        """One model call, counted whatever its reply is worth. `place` is the phase or node; a call that is no turn of
        its own (a formatter, a summary) has `is_turn` false.

        Raises RolloutEnded at a limit or when the answer does not come in time, ModelError as the model does.
        """
        self.check(is_turn=is_turn)
        task = self.task
        try:
            async with asyncio.timeout(self.seconds_left()) as deadline:
                request = ChatRequest(
                    messages,
                    sampling or self.sampling,
                    session=task.candidate_id,
                    group=task.instance.instance_id,
                    place=place,
                    role=role,
                    tools=tools,
                    paused=lambda: self._paused(deadline),
                )
                reply = await self.model.complete(request)
        except TimeoutError:
            if deadline.expired():
                raise RolloutEnded("time_limit") from None
            raise
        self.turns += is_turn
        self.usage = add_usage(self.usage, reply.usage)
        self.known_cost += reply.usage.cost or 0.0
        # Lone surrogates (half an emoji) fit in no file.
        return replace(reply, text=whole(reply.text), tool_calls=tuple(map(_whole_call, reply.tool_calls)))


def whole(text: str) -> str:
    """`text` with lone surrogates replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _whole_call(call: ToolCall) -> ToolCall:
    return ToolCall(whole(call.id), whole(call.name), whole(call.arguments))
