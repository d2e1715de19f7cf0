"""What one request has cost so far: tries, time and tokens."""

import time
from dataclasses import dataclass, field

from uchide.records import Usage


@dataclass
class Effort:
    """What one request has cost so far."""

    since: float | None = None
    """First failure (monotonic); later by the time in which it stood in the queue or was worked on meanwhile."""
    bad: int = 0
    """Bad answers."""
    resumes: float = float("-inf")
    """When it may be sent again (monotonic): a bad answer makes this request wait, not all."""
    wasted: Usage = field(default_factory=Usage)
    """Tokens of answers that were thrown away."""

    @property
    def failing_s(self) -> float:
        """For how long it has failed."""
        return 0.0 if self.since is None else time.monotonic() - self.since

    def leave_out(self, seconds: float) -> None:
        """Time in which nothing failed."""
        if self.since is not None:
            self.since += seconds


def total(wasted: Usage, usage: Usage | None) -> Usage:
    """Both together; an answer that was not counted has an unknown cost."""
    more = usage or Usage(calls=1)
    if not wasted.calls:
        return more
    cached = [count for count in (wasted.cached_tokens, more.cached_tokens) if count is not None]
    return Usage(
        calls=wasted.calls + more.calls,
        prompt_tokens=wasted.prompt_tokens + more.prompt_tokens,
        completion_tokens=wasted.completion_tokens + more.completion_tokens,
        cached_tokens=sum(cached) if cached else None,
        cost=None if wasted.cost is None or more.cost is None else wasted.cost + more.cost,
    )
