"""A trajectory on a terminal: by phase and turn, in colour and through the pager where somebody is looking."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uchide.cli.text import plural, safe, say
from uchide.errors import ConfigError
from uchide.report.visible import clip, one_line

if TYPE_CHECKING:
    from uchide.agents.interop import Imported, Step

THOUGHT, ACTION, OBSERVATION, PROMPT = 1_200, 2_000, 2_000, 4_000
"""Characters shown of each unless everything is asked for."""
BOLD, DIM, RED, CYAN, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[36m", "\x1b[0m"


@dataclass(frozen=True)
class Part:
    """What of a trajectory is asked for."""

    phase: str = ""
    turn: int | None = None
    full: bool = False


Line = tuple[str, str]
"""(style, text): the text may span several lines."""


def lines(item: "Imported", part: Part) -> Iterator[Line]:
    """The trajectory, or the part of it. Nothing is left out with `full`. Raises ConfigError for a part it has not."""
    _check(item, part)
    yield from _head(item)
    if part.turn is None and not part.phase:
        yield from _opening(item, part)
    where = ("", 0)
    for n, step in enumerate(item.steps, start=1):
        if (part.phase and step.phase != part.phase) or part.turn not in (None, n):
            continue
        if (step.phase, step.visit) != where:
            where = (step.phase, step.visit)
            if step.phase:
                yield BOLD, f"\n=== {step.phase}" + (f" (visit {step.visit})" if step.visit > 1 else "")
        if part.full:
            for role, said in step.before:
                yield DIM, f"\n--- {role}\n{said}"
        yield from _step(n, step, part.full)
    for note in item.notes:
        yield RED, f"\nnote: {note}"


def _check(item: "Imported", part: Part) -> None:
    phases = dict.fromkeys(step.phase for step in item.steps if step.phase)
    if part.phase and part.phase not in phases:
        raise ConfigError(
            f"no turn is of a phase {part.phase!r}",
            hint=f"it has {', '.join(phases)}" if phases else "it has no phases",
        )
    if part.turn is not None and part.turn > len(item.steps):
        raise ConfigError(
            f"there is no turn {part.turn}: turns count over the whole rollout, and it has {len(item.steps)}",
            hint=f"--turn 1 to --turn {len(item.steps)}" if item.steps else "it has no turns",
        )
    if part.turn is not None and part.phase and (of := item.steps[part.turn - 1].phase) != part.phase:
        its = [n for n, step in enumerate(item.steps, start=1) if step.phase == part.phase]
        raise ConfigError(
            f"turn {part.turn} is of {of or 'no phase'}, not of {part.phase}: turns count over the whole rollout",
            hint=f"{part.phase} has turns from {its[0]} to {its[-1]}",
        )


def _head(item: "Imported") -> Iterator[Line]:
    made = ", ".join(filter(None, (item.source, item.agent, item.model)))
    usage = item.usage
    tokens = f", {usage.prompt_tokens + usage.completion_tokens:,} tokens" if usage else ""
    patch = "" if item.patch is None else f", patch of {plural(len(item.patch), 'character')}"
    yield BOLD, f"{item.instance_id or 'trajectory'}: {made}"
    ended = item.exit_status or "no exit status"
    yield "", f"{ended}, {plural(len(item.steps), 'step')}, {plural(item.acts, 'action')}{tokens}{patch}"


def _opening(item: "Imported", part: Part) -> Iterator[Line]:
    for role, said in item.opening:
        if part.full or role != "system":
            yield DIM, f"\n--- {role}\n{_cut(said, PROMPT, full=part.full)}"


def _step(n: int, step: "Step", full: bool) -> Iterator[Line]:
    yield CYAN, f"\n[{n}]" + (f" {step.token}" if step.token else "")
    if step.thought:
        yield "", _cut(step.thought, THOUGHT, full=full)
    for act in step.acts:
        sign = "$" if act.tool in ("bash", "terminal", "execute_bash") else f"{act.tool}:"
        yield BOLD, f"{sign} {_cut(act.text, ACTION, full=full)}"
    if step.problem:
        yield RED, f"! {step.problem if full else one_line(step.problem)}"
    if step.observation:
        yield DIM, _cut(step.observation.rstrip("\n"), OBSERVATION, full=full)


def _cut(text: str, limit: int, *, full: bool) -> str:
    return text if full else clip(text, limit)


def show(shown: Iterable[Line]) -> None:
    """Print it: coloured and paged on a terminal, plain elsewhere. `NO_COLOR` and `TERM=dumb` switch colours off."""
    if not sys.stdout.isatty():
        for _, text in shown:
            say(text)
        return
    coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    pieces = [_styled(style, safe(text)) if coloured else safe(text) for style, text in shown]
    _page("\n".join(pieces) + "\n")


def _styled(style: str, text: str) -> str:
    """Every line on its own: a pager that begins in the middle must not miss the style."""
    return "\n".join(f"{style}{line}{PLAIN}" if style and line else line for line in text.split("\n"))


def _page(text: str) -> None:
    """Through the pager if it is longer than the screen. `less` is asked to keep colours (-R), and to end where it all
    fits (-F)."""
    import click

    if text.count("\n") < shutil.get_terminal_size().lines - 1:
        sys.stdout.write(text)
        return
    os.environ.setdefault("LESS", "-RFX")
    click.echo_via_pager(text, color=True)
