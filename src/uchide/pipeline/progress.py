"""Progress of jobs: written by each worker to its own small file, read by the controller."""

import json
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uchide.redact import scrub

_EVERY_S = 0.3


class Reporter:
    """A worker's side: counts rows and keeps the last events. Cheap to call for every row."""

    def __init__(self, path: Path, label: str) -> None:
        self._path = path
        self._state: dict[str, Any] = {"label": label, "total": None, "done": 0, "infra": 0}
        self._state.update(events=[], error="", ended=False)
        self._written = 0.0
        self._flush()

    def counts(self, *, done: int, infra: int, total: int) -> None:
        self._state.update(done=done, infra=infra, total=total)
        self._flush(lazy=done < total)

    def event(self, text: str) -> None:
        """One plain line worth showing. Also printed, so that it stands in the job's log."""
        text = scrub(text)
        print(text, flush=True)
        self._state["events"] = [*self._state["events"], text][-200:]
        self._flush(lazy=True)

    def end(self, error: str = "") -> None:
        self._state.update(ended=True, error=scrub(error))
        self._flush()

    def _flush(self, *, lazy: bool = False) -> None:
        if lazy and time.monotonic() - self._written < _EVERY_S:
            return
        self._written = time.monotonic()
        tmp = self._path.with_name(f".{self._path.name}")
        try:
            tmp.write_text(json.dumps(self._state))  # no fsync: lost with the machine, and nothing depends on it
            tmp.replace(self._path)
        except OSError:  # a full disk is told of by the row that does not fit
            with suppress(OSError):
                tmp.unlink(missing_ok=True)


@dataclass
class StageProgress:
    """Rows of all jobs with one label."""

    label: str
    jobs: int = 0
    jobs_done: int = 0
    total: int = 0
    done: int = 0
    infra: int = 0
    failed: int = 0
    """Jobs that ended with an error."""
    started: bool = False
    first_seen: float = field(default_factory=time.monotonic)

    def left_s(self, now: float) -> float | None:
        """Seconds left at the pace so far; None while nothing is known."""
        if not self.done or self.done >= self.total:
            return None
        return (now - self.first_seen) / self.done * (self.total - self.done)


@dataclass
class Watcher:
    """The controller's side: reads what changed in the progress folder."""

    folder: Path
    expected: dict[str, tuple[str, int]]
    """Job name -> (label, rows)."""
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _shown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _started: dict[str, float] = field(default_factory=dict)

    def poll(self) -> list[str]:
        """Read changed files; returns new events as lines."""
        lines: list[str] = []
        for path in self.folder.glob("[!.]*.json"):
            changed = path.stat().st_mtime_ns
            if self._seen.get(path.name) == changed:
                continue
            self._seen[path.name] = changed
            state = json.loads(path.read_bytes())
            name = path.name.removesuffix(".json")
            self.states[name] = state
            self._started.setdefault(state["label"], time.monotonic())
            events = state["events"]
            lines += [f"{state['label']}: {text}" for text in events[self._shown[name] :]]
            self._shown[name] = len(events)
        return lines

    def stages(self) -> list[StageProgress]:
        """One entry per label, in the order planned."""
        stages: dict[str, StageProgress] = {}
        for name, (label, rows) in self.expected.items():
            stage = stages.setdefault(label, StageProgress(label))
            stage.first_seen = self._started.get(label, time.monotonic())
            state = self.states.get(name, {})
            stage.started |= name in self.states
            stage.jobs += 1
            stage.jobs_done += bool(state.get("ended")) and not state.get("error")
            stage.failed += bool(state.get("error"))
            stage.total += rows if state.get("total") is None else state["total"]
            stage.done += state.get("done", 0)
            stage.infra += state.get("infra", 0)
        return list(stages.values())

    def errors(self) -> dict[str, str]:
        """Job name -> message of every job that failed."""
        return {name: state["error"] for name, state in self.states.items() if state.get("error")}
