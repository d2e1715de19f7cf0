"""Spend caps of an experiment: what its models may use, and the ledger that all its jobs write and read.

Each job appends to a file of its own in the experiment's ledger folder and reads those of the others, so nothing is
locked and a killed job loses nothing. GPU-hours are the time in which a server had at least one request of the
experiment, times its GPUs: two requests at once cost no more than one.
"""

import json
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pydantic import BaseModel, ConfigDict, Field

from uchide.errors import ConfigError, SpendLimit
from uchide.records import Usage
from uchide.store.atomic import refused

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
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            self._file = self._file or _open(self._own)
            self._file.write(data)
        except OSError as error:
            raise refused(self._own, error) from error
        self.total.add(_spent(line))

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
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._read[path] = self._read.get(path, 0) + whole
        for line in data[:whole].splitlines():
            if (entry := _entry(line)) is not None:
                self.total.add(_spent(entry))


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
        file.write(b"\n")
    return file


def _entry(line: bytes) -> dict[str, object] | None:
    """One line; None for the half line of a killed job."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "server" in entry else None


def _spent(entry: Mapping[str, object]) -> Spent:
    usage = Usage.model_validate(
        {"prompt_tokens": entry["prompt"], "completion_tokens": entry["completion"], "cost": entry["usd"]}
    )
    start, end, gpus = (float(str(entry[key])) for key in ("start", "end", "gpus"))
    return Spent(str(entry["server"]), start, end, usage, gpus)


def _limit(cap: str, spent: str, allowed: str) -> SpendLimit:
    return SpendLimit(
        f"policy.spend.{cap} is reached: {spent} spent, {allowed} allowed",
        hint=f"finished rows are kept. To go on, raise policy.spend.{cap} and run the same command again",
    )
