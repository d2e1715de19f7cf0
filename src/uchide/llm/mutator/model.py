"""The chat model: reads the header and the last observation, and answers with the next step of its playbook."""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uchide.errors import ConfigError, ModelError
from uchide.protocols import ChatReply, ChatRequest
from uchide.records import Usage

HEADER = "UCHIDE-HEADER "
RETURN_CODE = re.compile(r"<returncode>(.*?)</returncode>")


class MutatorConfig(BaseModel):
    """Options of the model in an experiment file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mutants: int = Field(default=300, ge=1, le=100_000)
    """Candidate edits tried per search."""


class Step(BaseModel):
    """One turn: a command, the return codes that let the next step follow, and what to say otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int = 0
    thought: str
    command: str
    expect: tuple[int, ...] = (0,)
    otherwise: str = ""
    """Why the phase is given up when the return code is another one."""


class Play(BaseModel):
    """One phase: its steps, then COMPLETE with a memo."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: tuple[Step, ...]
    later_steps: tuple[Step, ...] | None = None
    """The steps of a second and later visit, where they differ."""
    memo: str


class Header(BaseModel):
    """The part of a phases prompt that is written for programs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phase: str
    visit: int
    share: str
    root: str


@cache
def playbook() -> Mapping[str, Play]:
    """Phase -> play, from the package's own `playbook.yaml`."""
    text = resources.files(__package__).joinpath("playbook.yaml").read_text(encoding="utf-8")
    return {phase: Play.model_validate(play) for phase, play in yaml.safe_load(text).items()}


@cache
def _template(text: str) -> jinja2.Template:
    return jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string(text)


class Mutator:
    """The model. Holds its options and nothing else, so one object serves any number of rollouts."""

    name = "mutator"
    tools = ("try_edits",)

    def __init__(self, config: MutatorConfig) -> None:
        self._config = config

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The next turn. Raises ModelError when the conversation is not one of the phases agent."""
        return ChatReply(text=self._answer(request), usage=Usage(calls=1, cost=0.0), model=self.name)

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        """It reads prompts of any length."""
        del place, role
        return None

    async def aclose(self) -> None:
        """It holds nothing."""

    def _answer(self, request: ChatRequest) -> str:
        header = read_header(request.messages[0].content)
        play = playbook().get(header.phase)
        if play is None:
            raise _unplayable(f"it has no play for the phase {header.phase!r}")
        steps = play.steps if header.visit == 1 or play.later_steps is None else play.later_steps
        values = {**header.model_dump(), "seed": request.sampling.seed, "mutants": self._config.mutants}
        taken = sum(message.role == "assistant" for message in request.messages)
        if taken:
            last = steps[min(taken, len(steps)) - 1]
            if why := _setback(request.messages[-1].content, last):
                return _leave("GIVEUP", why)
        if taken < len(steps):
            return _act(steps[taken], values)
        return _leave("COMPLETE", _template(play.memo).render(values))


def read_header(prompt: str) -> Header:
    """The header of a system prompt. Raises ModelError when there is none."""
    first = prompt.partition("\n")[0]
    if not first.startswith(HEADER):
        raise _unplayable("the system prompt does not begin with the phases agent's header")
    try:
        return Header.model_validate(json.loads(first.removeprefix(HEADER)))
    except (json.JSONDecodeError, ValidationError) as error:
        raise _unplayable(f"the header cannot be read: {error}") from error


def create(options: Mapping[str, Any]) -> Mutator:
    """The model with the options of an experiment file. Raises ConfigError for an unknown or wrong one."""
    try:
        return Mutator(MutatorConfig.model_validate(options))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        known = ", ".join(MutatorConfig.model_fields)
        raise ConfigError(f"model.{at}: {first['msg']}", hint=f"options of mutator: {known}") from error


def _setback(answer: str, step: Step) -> str:
    """Why the phase cannot go on after this observation; empty when it can."""
    code = RETURN_CODE.search(answer)
    if code is None:
        return "My last answer was not taken: " + answer.strip().partition("\n")[0]
    if code[1] in map(str, step.expect):
        return ""
    return f"{step.otherwise or 'The command failed.'} (return code {code[1]})"


def _act(step: Step, values: Mapping[str, object]) -> str:
    command = _template(step.command).render(values).strip()
    return f"WORKFLOW: W{step.step}\nTHOUGHT: {step.thought}\nFINAL_ANSWER:\n<tool: bash> {command} </tool>"


def _leave(token: str, memo: str) -> str:
    return f"WORKFLOW: {token}\nTHOUGHT: {memo.strip().partition(chr(10))[0]}\nFINAL_ANSWER:\n{memo.strip()}"


def _unplayable(why: str) -> ModelError:
    error = ModelError(f"the model mutator cannot take part: {why}", hint="it plays the built-in phases agent only")
    error.retryable = False
    return error
