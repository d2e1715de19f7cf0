"""The playbook as validated models, and the walk through it: from what happened in a conversation to the next step."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

_RETURN_CODE = re.compile(r"<returncode>(.*?)</returncode>")


class Step(BaseModel):
    """One turn: a command, the return codes that let the next step follow, and what to say otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int = 0
    thought: str
    command: str
    expect: tuple[int, ...] = (0,)
    otherwise: str = ""
    """Why the phase is given up when the return code is another one."""
    needs: str = ""
    """The tool without which the step is not taken and the phase is given up."""


class Play(BaseModel):
    """One phase: its steps, then COMPLETE with a memo. Or one made of others: `of` in place of `steps`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: tuple[Step, ...] = ()
    later_steps: tuple[Step, ...] | None = None
    """The steps of a second and later visit, where they differ."""
    of: tuple[str, ...] = ()
    """The plays that are played one after the other; the first is at the workflow's step 1."""
    later_of: tuple[str, ...] = ()
    """Those that a second and later visit plays."""
    optional: tuple[str, ...] = ()
    """Those of them that may fail; the next one follows."""
    memo: str

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if bool(self.steps) == bool(self.of):
            raise ValueError("either `steps` or `of`")
        return self

    def taken(self, visit: int) -> tuple[Step, ...]:
        """The steps of this visit."""
        return self.steps if visit == 1 or self.later_steps is None else self.later_steps


@dataclass(frozen=True)
class Part:
    """The steps of one play within a phase."""

    steps: tuple[Step, ...]
    optional: bool = False


@cache
def playbook() -> Mapping[str, Play]:
    """Phase -> play, from the package's own `playbook.yaml`."""
    text = resources.files(__package__).joinpath("playbook.yaml").read_text(encoding="utf-8")
    return {phase: Play.model_validate(play) for phase, play in yaml.safe_load(text).items()}


def parts_of(play: Play, visit: int) -> list[Part]:
    """What is played in this visit."""
    if not play.of:
        return [Part(play.taken(visit))]
    parts = []
    for name in play.of if visit == 1 or not play.later_of else play.later_of:
        steps = playbook()[name].taken(visit)
        at = play.of.index(name) + 1
        parts.append(Part(tuple(s.model_copy(update={"step": at}) for s in steps), name in play.optional))
    return parts


def next_step(parts: Sequence[Part], tools: Sequence[str], answers: Sequence[str]) -> Step | str | None:
    """The step after these `answers` to the steps so far; why the phase has to be given up; None at its end."""
    left = iter(answers)
    for part in parts:
        for step in part.steps:
            if step.needs and step.needs not in tools:
                why = f"I need the tool {step.needs} for this, and it is not offered."
            elif (answer := next(left, None)) is None:
                return step
            else:
                why = setback(answer, step)
            if why and not part.optional:
                return why
            if why:
                break
    return _not_taken(extra) if (extra := next(left, None)) is not None else None


def setback(answer: str, step: Step) -> str:
    """Why the phase cannot go on after this observation; empty when it can."""
    code = _RETURN_CODE.search(answer)
    if code is None:
        return _not_taken(answer)
    if code[1] in map(str, step.expect):
        return ""
    return f"{step.otherwise or 'The command failed.'} (return code {code[1]})"


def _not_taken(answer: str) -> str:
    return "My last answer was not taken: " + answer.strip().partition("\n")[0]
