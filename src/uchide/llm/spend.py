"""Spend caps of an experiment: what its models may use, and the ledger that all its jobs write and read.

Each job appends to a file of its own in the experiment's ledger folder and reads those of the others, so nothing is
locked and a killed job loses nothing. GPU-hours are the time in which a server had at least one request of the
experiment, times its GPUs: two requests at once cost no more than one.
"""

import json
import logging
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uchide.errors import ConfigError, SpendLimit, StoreError
from uchide.records import Usage
from uchide.store.atomic import refused

_LOG = logging.getLogger(__name__)
_EVERY_S = 0.5
"""How often the other jobs' files are looked at."""


class SpendCaps(BaseModel):
    """`policy.spend` of an experiment: all its runs and reruns together; None: no cap."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    usd: float | None = Field(default=None, gt=0)
    """US dollars, by the price of each model."""
    tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens."""
    gpu_hours: float | None = Field(default=None, gt=0)
    """Hours in which a server was busy with requests, times its GPUs."""

    def __bool__(self) -> bool:
        return any(cap is not None for cap in (self.usd, self.tokens, self.gpu_hours))


@dataclass(frozen=True)
class Spent:
    """One request to a server, whatever came of it. Times in seconds since the epoch; `usage` None: not counted."""

    server: str
    start: float
    end: float
    usage: Usage | None
    gpus: float = 0.0


class _Line(BaseModel):
    """A request as it stands in a ledger; the bounds keep nonsense out of the sums."""

    server: str
    start: float = Field(ge=0, le=1e11)
    end: float = Field(ge=0, le=1e11)
    gpus: float = Field(ge=0, le=1e6)
    prompt: int = Field(ge=0, le=2**53)
    completion: int = Field(ge=0, le=2**53)
    usd: float | None = Field(ge=0, le=1e12)

    def spent(self) -> Spent:
        usage = Usage(prompt_tokens=self.prompt, completion_tokens=self.completion, cost=self.usd)
        return Spent(self.server, self.start, self.end, usage, self.gpus)


class Meter(Protocol):
    """Who is asked before a request is sent, and told after it."""

    def check(self) -> None:
        """Raises SpendLimit when nothing more may be spent."""
        ...

    def add(self, spent: Spent) -> None: ...

    def needs_usage(self) -> bool:
        """Whether an answer without counted tokens or without a cost cannot be accepted."""
        ...


@dataclass
class Total:
    """Everything spent so far."""

    usd: float = 0.0
    tokens: int = 0
    busy: dict[str, "Busy"] = field(default_factory=dict)
    """Server -> when it was busy."""

    def add(self, spent: Spent) -> None:
        if spent.usage is not None:
            self.usd += spent.usage.cost or 0.0
            self.tokens += spent.usage.prompt_tokens + spent.usage.completion_tokens
        if spent.gpus:
            self.busy.setdefault(spent.server, Busy()).add(spent.start, spent.end, spent.gpus)

    @property
    def gpu_hours(self) -> float:
        return sum(busy.gpu_seconds for busy in self.busy.values()) / 3600


@dataclass
class Busy:
    """Disjoint intervals in order, as two lists, and their length times GPUs."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    gpu_seconds: float = 0.0

    def add(self, start: float, end: float, gpus: float) -> None:
        """Count what of [start, end] is new."""
        if end <= start:
            return
        first, last = bisect_left(self.ends, start), bisect_left(self.starts, end)
        inside = list(zip(self.starts[first:last], self.ends[first:last], strict=True))
        known = sum(min(end, stop) - max(start, begin) for begin, stop in inside)
        self.gpu_seconds += (end - start - known) * gpus
        self.starts[first:last] = [min([start, *(begin for begin, _ in inside)])]
        self.ends[first:last] = [max([end, *(stop for _, stop in inside)])]


class Ledger:
    """The meter of one job of an experiment."""

    def __init__(self, folder: Path, job: str, caps: SpendCaps) -> None:
        self._folder = folder
        self._caps = caps
        self.total = Total()
        self._own = folder / f"{job}.jsonl"
        self._read: dict[Path, int] = {}
        self._looked = time.monotonic()
        for path in folder.glob("*.jsonl"):
            self._read_on(path)
        self._file: BinaryIO | None = None

    def check(self) -> None:
        """Raises SpendLimit naming the cap that is reached and what was spent."""
        self._refresh()
        caps, total = self._caps, self.total
        if caps.usd is not None and total.usd >= caps.usd:
            raise _limit("usd", f"{total.usd:.2f} US dollars", f"{caps.usd:g}")
        if caps.tokens is not None and total.tokens >= caps.tokens:
            raise _limit("tokens", f"{total.tokens:,} tokens", f"{caps.tokens:,}")
        if caps.gpu_hours is not None and total.gpu_hours >= caps.gpu_hours:
            raise _limit("gpu_hours", f"{total.gpu_hours:.2f} GPU-hours", f"{caps.gpu_hours:g}")

    def add(self, spent: Spent) -> None:
        """Append one request; the other jobs see it within half a second."""
        usage = spent.usage or Usage()
        line = {
            "server": spent.server,
            "start": round(spent.start, 3),
            "end": round(spent.end, 3),
            "gpus": spent.gpus,
            "prompt": usage.prompt_tokens,
            "completion": usage.completion_tokens,
            "usd": usage.cost,
        }
        self.total.add(spent)
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            self._file = self._file or _open(self._own)
            _append(self._file, data)
        except OSError as error:
            raise refused(self._own, error) from error

    def needs_usage(self) -> bool:
        return self._caps.usd is not None or self._caps.tokens is not None

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _refresh(self) -> None:
        """Read what the other jobs appended meanwhile."""
        now = time.monotonic()
        if now - self._looked < _EVERY_S:
            return
        self._looked = now
        for path in self._folder.glob("*.jsonl"):
            if path != self._own:
                self._read_on(path)

    def _read_on(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
        except FileNotFoundError:  # taken out meanwhile
            return
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read: {error.strerror or error}",
                hint="the caps of policy.spend need it: mend it, or move it out of that folder to leave it uncounted",
            ) from error
        whole = data.rfind(b"\n") + 1
        self._read[path] = self._read.get(path, 0) + whole
        for line in data[:whole].split(b"\n"):
            if not line:
                continue
            try:
                self.total.add(_Line.model_validate_json(line).spent())
            except ValidationError:
                _LOG.warning("%s: a line is not of a ledger, and is not counted: %r", path, line[:80])


def refuse_unknown_spend(options: Mapping[str, Any], caps: SpendCaps, where: str) -> None:
    """Raises ConfigError when the model's options do not say what a cap counts."""
    if caps.usd is not None and options.get("price") is None:
        raise ConfigError(
            f"policy.spend.usd cannot be kept: {where} has no price",
            hint=f"add {where}.price: {{input: USD, output: USD}} per million tokens (0 where nothing is paid), or "
            "take policy.spend.usd out",
        )
    if caps.gpu_hours is not None and options.get("gpus") is None:
        raise ConfigError(
            f"policy.spend.gpu_hours cannot be kept: {where} does not say how many GPUs a server has",
            hint=f"add {where}.gpus (0 for a hosted model), or take policy.spend.gpu_hours out",
        )


def _open(path: Path) -> BinaryIO:
    """For appending. A killed job may have left half a line: it must not swallow the next one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab", buffering=0)
    if file.tell() and not path.read_bytes().endswith(b"\n"):
        _append(file, b"\n")
    return file


def _append(file: BinaryIO, data: bytes) -> None:
    """The whole line or, on a full disk, nothing of it. Raises OSError."""
    end = file.seek(0, SEEK_END)
    try:
        while data:
            data = data[file.write(data) :]
    except OSError:
        file.truncate(end)
        raise


def _limit(cap: str, spent: str, allowed: str) -> SpendLimit:
    return SpendLimit(
        f"policy.spend.{cap} is reached: {spent} spent, {allowed} allowed",
        hint=f"finished rows are kept. To go on, raise policy.spend.{cap} and run the same command again",
    )
