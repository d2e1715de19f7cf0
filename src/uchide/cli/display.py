"""Progress while an experiment runs: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from uchide.cli.text import duration, say
from uchide.pipeline.progress import StageProgress
from uchide.report.visible import one_line

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

PLAIN_EVERY_S = 10.0
EVENT_CHARS = 400


class Display(Protocol):
    def tick(self, stages: Sequence[StageProgress], lines: Sequence[str]) -> None: ...


class Plain:
    """One line when a stage starts, ends or fails, and now and then between."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, float]] = {}

    def tick(self, stages: Sequence[StageProgress], lines: Sequence[str]) -> None:
        for line in lines:
            say(one_line(line, EVENT_CHARS))
        now = time.monotonic()
        for stage in stages:
            text = describe(stage, now)
            before, when = self._said.get(stage.label, ("", 0.0))
            urgent = not before or stage.jobs_done + stage.failed == stage.jobs
            if text and text != before and (urgent or now - when >= PLAIN_EVERY_S):
                say(text)
                self._said[stage.label] = (text, now)


class OnTerminal:
    """A table that is redrawn in place; events scroll above it."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    def tick(self, stages: Sequence[StageProgress], lines: Sequence[str]) -> None:
        from rich.text import Text

        for line in lines:
            self._live.console.print(Text(one_line(line, EVENT_CHARS)))
        self._live.update(progress_table(stages), refresh=True)


def describe(stage: StageProgress, now: float) -> str:
    """One plain line about a stage; empty before it starts."""
    if not stage.done and not stage.failed and not stage.jobs_done and not stage.started:
        return ""
    rows = f"{stage.done}/{stage.total} rows" if stage.total else ""
    jobs = f"{stage.jobs_done}/{stage.jobs} jobs" if stage.jobs > 1 else ("done" if stage.jobs_done else "")
    bad = [f"{stage.infra} infra" if stage.infra else "", f"{stage.failed} failed" if stage.failed else ""]
    left = stage.left_s(now)
    ahead = f"about {duration(left)} left" if left is not None else ""
    return f"{stage.label}: " + (", ".join(item for item in (rows, jobs, *bad, ahead) if item) or "started")


def progress_table(stages: Sequence[StageProgress]) -> "Table":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    now = time.monotonic()
    table = Table(box=None, pad_edge=False)
    for name in ("stage", "", "rows", "jobs", "infra", "failed", "left"):
        table.add_column(name, justify="right" if name in ("rows", "jobs", "infra", "failed", "left") else "left")
    for stage in stages:
        total, done = (stage.total, stage.done) if stage.total else (stage.jobs, stage.jobs_done)
        left = stage.left_s(now)
        table.add_row(
            stage.label,
            ProgressBar(total=total or 1, completed=done, width=24),
            f"{stage.done}/{stage.total}",
            f"{stage.jobs_done}/{stage.jobs}",
            str(stage.infra or ""),
            str(stage.failed or ""),
            duration(left) if left is not None else "",
        )
    return table


@contextmanager
def display() -> Iterator[Display]:
    """The display that suits standard output."""
    if not sys.stdout.isatty():
        yield Plain()
        return
    from rich.live import Live

    with Live(auto_refresh=False, transient=True) as live:
        yield OnTerminal(live)
