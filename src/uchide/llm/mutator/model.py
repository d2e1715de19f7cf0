"""The chat model: reads the header and the last observation, and answers with the next step of its playbook."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import jinja2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uchide.actions import FORMATS, Call, native, shell_command
from uchide.errors import ActionError, ConfigError, ModelError
from uchide.llm.mutator.playbook import next_step, parts_of, playbook
from uchide.protocols import ChatReply, ChatRequest, Message, ToolCall
from uchide.records import Usage

HEADER = "UCHIDE-HEADER "


class MutatorConfig(BaseModel):
    """Options of the model in an experiment file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mutants: int = Field(default=300, ge=1, le=100_000)
    """Candidate edits tried per search."""


class Header(BaseModel):
    """The part of a phases prompt that is written for programs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phase: str
    visit: int
    share: str
    root: str
    role: str = "agent"
    """`agent` and `planner` walk through the phase; `formatter` spells the action of a planner's draft."""
    action_format: str = "tool_bash"
    tools: tuple[str, ...] = ("run_tests", "line_edit")
    """The sandbox tools of the phase."""
    steps: int = Field(default=100, ge=1)
    """Steps of the phase's workflow."""


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
        header = read_header(request.messages[0].content)
        if header.role == "formatter":
            return self._reply(*_format(request.messages[-1].content, header))
        return self._reply(*self._answer(request, header))

    def _reply(self, text: str, *calls: ToolCall) -> ChatReply:
        finish = "tool_calls" if calls else "stop"
        return ChatReply(text, Usage(calls=1, cost=0.0), finish_reason=finish, model=self.name, tool_calls=calls)

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        """It reads prompts of any length."""
        del place, role
        return None

    async def aclose(self) -> None:
        """It holds nothing."""

    def _answer(self, request: ChatRequest, header: Header) -> tuple[str, *tuple[ToolCall, ...]]:
        play = playbook().get(header.phase)
        if play is None:
            raise _unplayable(f"it has no play for the phase {header.phase!r}")
        values = {**header.model_dump(), "seed": request.sampling.seed, "mutants": self._config.mutants}
        step = next_step(parts_of(play, header.visit), header.tools, _answers(request.messages))
        if isinstance(step, str):
            return (_leave("GIVEUP", step),)
        if step is None:
            return (_leave("COMPLETE", _template(play.memo).render(values)),)
        command = _template(step.command).render(values).strip()
        head = f"WORKFLOW: W{min(step.step, header.steps - 1)}\nTHOUGHT: {step.thought}"
        try:
            action, *calls = _spell(command, header.action_format)
        except ActionError as error:
            return (_leave("GIVEUP", f"I cannot write my command down: {error}"),)
        return (f"{head}\nFINAL_ANSWER:\n{action}" if action else head, *calls)


def read_header(prompt: str) -> Header:
    """The header of a system prompt. Raises ModelError when there is none."""
    first = prompt.partition("\n")[0]
    if not first.startswith(HEADER):
        raise _unplayable("the system prompt does not begin with the phases agent's header")
    try:
        header = Header.model_validate(json.loads(first.removeprefix(HEADER)))
    except (json.JSONDecodeError, ValidationError) as error:
        raise _unplayable(f"the header cannot be read: {error}") from error
    if header.action_format not in FORMATS:
        raise _unplayable(f"it cannot write the action format {header.action_format!r}")
    return header


def create(options: Mapping[str, Any]) -> Mutator:
    """The model with the options of an experiment file. Raises ConfigError for an unknown or wrong one."""
    try:
        return Mutator(MutatorConfig.model_validate(options))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        known = ", ".join(MutatorConfig.model_fields)
        raise ConfigError(f"model.{at}: {first['msg']}", hint=f"options of mutator: {known}") from error


def _answers(messages: Sequence[Message]) -> list[str]:
    """What each of the turns so far was answered with."""
    return [after.content for turn, after in pairwise(messages) if turn.role == "assistant"]


def _spell(command: str, form: str) -> tuple[str, *tuple[ToolCall, ...]]:
    """The action as text and as tool calls of the API. Raises ActionError when the format cannot spell it."""
    call = Call("bash", {"command": command})
    return ("", native.tool_call(call)) if FORMATS[form].native else (FORMATS[form].write(call),)


def _format(draft: str, header: Header) -> tuple[str, *tuple[ToolCall, ...]]:
    """The action of a planner's draft in the header's format, in which the draft is most likely written already."""
    forms = [FORMATS[header.action_format], *FORMATS.values()]
    found = next((call for form in forms if isinstance(call := form.read(draft, ()), Call)), None)
    command = None if found is None else shell_command(found)
    if not isinstance(command, str):
        return ("no action",)
    try:
        return _spell(command, header.action_format)
    except ActionError as error:
        return (f"no action: {error}",)


def _leave(token: str, memo: str) -> str:
    return f"WORKFLOW: {token}\nTHOUGHT: {memo.strip().partition(chr(10))[0]}\nFINAL_ANSWER:\n{memo.strip()}"


def _unplayable(why: str) -> ModelError:
    error = ModelError(f"the model mutator cannot take part: {why}", hint="it plays the built-in phases agent only")
    error.retryable = False
    return error
