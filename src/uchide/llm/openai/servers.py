"""The servers of one model: which one a request goes to, who is resting after a failure, and how many requests at once.

All rollouts of a job share this state, so that one refusal makes all of them wait, and one dead server is found out
once. A pause that a server asked for (429) stands in a small file too, where the other jobs of the machine see it.
"""

import asyncio
import json
import logging
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from uchide.llm.openai.config import OpenAIConfig, Retry
from uchide.llm.openai.faults import LONGEST_PAUSE_S, Fault
from uchide.paths import backoff_dir
from uchide.records import digest

_LOG = logging.getLogger(__name__)


@dataclass
class SharedPause:
    """Until when a server should not be asked: what it told this job, and what others wrote into a file.

    The file is advice. Whatever is wrong with it, this job goes by what it was told itself.
    """

    path: Path
    told: float = 0.0
    """What the server told this job (seconds since the epoch)."""
    distrusted: float = 0.0
    """What stands in the file and is not believed."""

    def left_s(self) -> float:
        """Seconds still to wait."""
        until = self._written()
        left = max(self.told, until if until != self.distrusted else 0.0) - time.time()
        return max(0.0, left)

    def extend(self, seconds: float, why: str) -> None:
        """Make the pause at least this long from now."""
        if seconds <= self.left_s():
            return
        self.told = time.time() + seconds
        tmp = self.path.with_name(f"{self.path.name}.{random.getrandbits(48):x}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            tmp.write_text(json.dumps({"until": self.told, "why": why}))
            tmp.replace(self.path)
        except OSError as error:
            _LOG.warning("%s cannot be written (%s): only this job makes the pause", self.path, error.strerror or error)
            with suppress(OSError):
                tmp.unlink()

    def distrust(self, longest_s: float) -> bool:
        """Leave a pause longer than this out of account if only the file says so: True for the first such one."""
        until = self._written()
        if self.distrusted or until - time.time() <= longest_s or self.told - time.time() > longest_s:
            return False
        self.distrusted = until
        return True

    def _written(self) -> float:
        """The time in the file; 0 where there is none that may be true."""
        if not self.path.is_file():
            return 0.0
        try:
            until = float(json.loads(self.path.read_bytes())["until"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return 0.0  # another version's, cut by a full disk, or somebody's joke
        return until if 0 < until - time.time() <= LONGEST_PAUSE_S else 0.0


@dataclass
class Lanes:
    """How many requests may be in flight: halved by a refusal, one more per full round of successes."""

    most: int
    limit: float = 0.0
    busy: int = 0
    shrunk: float = float("-inf")
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.limit = self.limit or float(self.most)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn, first come first served, and give it back at the end."""
        if self.busy >= int(self.limit) or self.waiting:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the turn came, and nobody takes it
                    self._leave()
                raise
        else:
            self.busy += 1
        try:
            yield
        finally:
            self._leave()

    def grow(self, started: float) -> None:
        """After a success; one that was under way at the last refusal says nothing about now."""
        if started > self.shrunk:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)
            self._call()

    def shrink(self, started: float) -> None:
        """Halve, but once for all requests that were under way together."""
        if started > self.shrunk:
            self.limit = max(1.0, self.limit / 2)
            self.shrunk = time.monotonic()

    def reset(self, limit: int) -> None:
        """This many from now on."""
        self.limit = float(limit)
        self._call()

    def _leave(self) -> None:
        self.busy -= 1
        self._call()

    def _call(self) -> None:
        while self.waiting and self.busy < int(self.limit):
            turn = self.waiting.popleft()
            if not turn.done():
                self.busy += 1
                turn.set_result(None)


@dataclass
class Server:
    """One server, as this job knows it."""

    url: str
    retry: Retry
    pause: SharedPause
    lanes: Lanes
    answered: bool = False
    """It has answered this job at least once."""
    served: bool = False
    """It has given this job at least one answer that could be used."""
    rounds: int = 0
    """Failures in a row, those that came together counted once."""
    since: float | None = None
    """First failure after the last answer; later by the time in which it was at work on requests meanwhile."""
    failed_at: float = float("-inf")
    """Last failure (monotonic)."""
    counted_at: float = float("-inf")
    """Last failure that began a round."""
    probed: bool = False
    """One request is asking whether a pause that only the file of the machine knows is true."""
    rests_until: float = float("-inf")

    def resting_s(self) -> float:
        """Seconds until it should be tried again after a failure."""
        return max(0.0, self.rests_until - time.monotonic())

    def succeeded(self, started: float) -> None:
        """An answer to a request sent at `started` (monotonic), if only that the request is wrong."""
        self.answered, self.rounds, self.since = True, 0, None
        self.rests_until = float("-inf")
        if self.probed:
            self.probed = False
            self.lanes.reset(self.lanes.most)
        self.lanes.grow(started)

    def failed(self, fault: Fault, started: float) -> None:
        """Rest after a failure of a request sent at `started` (monotonic)."""
        now = time.monotonic()
        if self.since is None:
            self.since = now
        elif fault.kind != "connect":
            self.since += now - max(started, self.failed_at)
        self.answered |= fault.kind != "connect"
        seconds = max(fault.retry_after_s or 0.0, self.retry.pause_s(self.rounds))
        if fault.kind == "busy":
            self.lanes.shrink(started)
            self.pause.extend(seconds, fault.message)
        if started >= max(self.rests_until, self.counted_at):
            self.rounds, self.counted_at = self.rounds + 1, now
            if fault.kind in {"connect", "server"}:
                self.rests_until = now + seconds
        self.failed_at = now

    def may_probe(self) -> bool:
        """Whether a pause longer than the configuration puts up with, which another job left, is to be tried: once,
        with one request, behind which the others queue."""
        if not self.pause.distrust(self.retry.seconds):
            return False
        self.probed = True
        self.lanes.reset(1)
        return True

    def given_up(self) -> bool:
        """Whether it has failed for as long as the configuration puts up with, up to its last failure."""
        if self.since is None:
            return False
        if not self.answered and self.rounds >= self.retry.attempts:
            return True
        return self.failed_at - self.since >= self.retry.seconds


class Servers:
    """All servers of one model."""

    def __init__(self, config: OpenAIConfig) -> None:
        self.all = tuple(
            Server(
                url,
                config.retry,
                SharedPause(backoff_dir() / f"{digest(f'{url} {config.model}')[:24]}.json"),
                Lanes(config.concurrency),
            )
            for url in config.base_url
        )

    def choose(self, group: str) -> Server:
        """The group's own server, or the next in its order while that one rests."""
        order = order_of(self.all, group)
        awake = [server for server in order if not server.resting_s()]
        return awake[0] if awake else min(order, key=Server.resting_s)

    def given_up(self) -> bool:
        return all(server.given_up() for server in self.all)


def order_of(servers: Sequence[Server], group: str) -> list[Server]:
    """Servers by a hash of group and address: each group has an order of its own, and the groups of a dead server are
    spread over the others."""
    return sorted(servers, key=lambda server: digest(f"{group} {server.url}"))
