"""One rollout in flight: the sandbox, the model and the running totals that every kind of agent needs."""

import asyncio
import time
from dataclasses import dataclass, field

from uchide.agents.trajectory import TrajectoryWriter
from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message, Sampling, Sandbox, Task
from uchide.records import ExitStatus, Usage


class RolloutEnded(Exception):
    """No error: a rollout reached one of its limits. Ends it from anywhere below; the candidate is still collected."""

    def __init__(self, status: ExitStatus) -> None:
        super().__init__(status)
        self.status = status


def add_usage(total: Usage, more: Usage) -> Usage:
    """Sum of two usages; cached tokens stay unknown until some server counts them."""
    cached = [count for count in (total.cached_tokens, more.cached_tokens) if count is not None]
    return Usage(
        calls=total.calls + max(1, more.calls),
        prompt_tokens=total.prompt_tokens + more.prompt_tokens,
        completion_tokens=total.completion_tokens + more.completion_tokens,
        cached_tokens=sum(cached) if cached else None,
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
    tools: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    turns: int = 0
    format_errors: int = 0
    usage: Usage = field(default_factory=Usage)
    phases: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def elapsed(self) -> float:
        """Seconds since the rollout began."""
        return time.monotonic() - self.started

    async def ask(self, messages: list[Message], seconds_left: float) -> ChatReply:
        """One model call, counted. `messages` is handed over as it is: a model must not change or keep it.

        Raises RolloutEnded("time_limit") when the answer does not come in time, ModelError as the model does.
        """
        request = ChatRequest(messages, self.sampling, session=self.task.candidate_id)
        try:
            async with asyncio.timeout(seconds_left) as deadline:
                reply = await self.model.complete(request)
        except TimeoutError:
            if deadline.expired():
                raise RolloutEnded("time_limit") from None
            raise
        self.turns += 1
        self.usage = add_usage(self.usage, reply.usage)
        # Lone surrogates (half an emoji) fit in no file.
        text = reply.text if reply.text.isascii() else reply.text.encode("utf-8", "replace").decode()
        return ChatReply(text, reply.usage, reply.finish_reason, reply.model)
