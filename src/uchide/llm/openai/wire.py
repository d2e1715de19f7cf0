"""Requests as the API wants them, and replies as we want them. Pure functions.

What a server or a model wrote may be nested a million deep, or be no Unicode (half a surrogate pair): it is never more
than a malformed answer, or malformed arguments.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from uchide.llm.openai.config import OpenAIConfig
from uchide.protocols import ChatRequest, Message, Sampling, ToolCall, ToolSpec
from uchide.records import Usage

_MOST_TOKENS = 2**53
ENDINGS: Mapping[str, str] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "repetition": "length",  # vLLM cut a text that went round in circles
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
"""How servers say that an answer is whole, or as whole as it gets; any other ending is a failure of the server."""


@dataclass(frozen=True)
class Parsed:
    """The body of a 200. `ending` is the server's own word; `usage` is None where the server counts nothing."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    ending: str
    usage: Usage | None
    model: str

    @property
    def finish_reason(self) -> str | None:
        """`stop`, `length` or `tool_calls`; None when the answer was cut off. Some servers end calls with `stop`."""
        known = ENDINGS.get(self.ending)
        return "tool_calls" if known == "stop" and self.tool_calls else known


class MalformedBody(ValueError):
    """A 200 whose body is no chat completion. `error` is the error object that stood there instead, if one did."""

    def __init__(self, message: str, error: object = None) -> None:
        super().__init__(message)
        self.error = error


def loads(text: str) -> object:
    """JSON. Raises ValueError, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def unicode_of(text: str) -> str:
    """The same with a replacement character for every lone surrogate, which cannot be sent or written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def body_of(request: ChatRequest, config: OpenAIConfig) -> dict[str, Any]:
    """The fields of a request."""
    body: dict[str, Any] = {"model": config.model, "messages": list(map(_message, request.messages))}
    body |= _sampling(request.sampling, config)
    if request.tools:
        body["tools"] = list(map(_tool, request.tools))
    return body | config.extra_body


def _sampling(sampling: Sampling, config: OpenAIConfig) -> dict[str, Any]:
    values = {
        "seed": sampling.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    sent = {name: value for name, value in values.items() if value is not None and name not in config.omit}
    if "max_tokens" in sent:
        sent[config.max_tokens_field] = sent.pop("max_tokens")
    return sent


def _message(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": unicode_of(message.content)}
    if message.tool_calls:
        sent["content"] = sent["content"] or None
        sent["tool_calls"] = list(map(_call, message.tool_calls))
    if message.role == "tool":
        sent["tool_call_id"] = unicode_of(message.tool_call_id)
    return sent


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": unicode_of(call.name), "arguments": _object(unicode_of(call.arguments))}
    return {"id": unicode_of(call.id), "type": "function", "function": function}


def _object(arguments: str) -> str:
    """Arguments that a server can read again: it parses those of earlier turns, and refuses the whole conversation when
    one is malformed. What a model got wrong is shown to it inside an object."""
    if not arguments.strip():
        return "{}"
    try:
        if isinstance(loads(arguments), dict):
            return arguments
    except ValueError:
        pass
    return json.dumps({"malformed": arguments})


def _tool(tool: ToolSpec) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": about}


# --- replies ---------------------------------------------------------------------------------------------------------
class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Function(_Lenient):
    name: str = ""
    arguments: str = ""

    @field_validator("name", "arguments", mode="before")
    @classmethod
    def _text(cls, value: object) -> str:
        """Some servers give arguments as an object already, or leave them out."""
        try:
            return value if isinstance(value, str) else "" if value is None else json.dumps(value)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


class _Call(_Lenient):
    id: str | None = None
    function: _Function = _Function()


class _Message(_Lenient):
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(_Lenient):
    message: _Message
    finish_reason: str | None = None


class _Details(_Lenient):
    cached_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)


class _Usage(_Lenient):
    prompt_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)
    completion_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)
    prompt_tokens_details: _Details | None = None


class _Body(_Lenient):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = None


def parse(text: str, config: OpenAIConfig, turn: int) -> Parsed:
    """The body of a 200. `turn` makes an id for a call that came without one. Raises MalformedBody."""
    try:
        data = loads(text)
    except ValueError as error:
        raise MalformedBody(f"not JSON: {text[:200]!r}") from error
    if isinstance(data, dict) and data.get("error") and not data.get("choices"):
        raise MalformedBody("an error instead of an answer", data["error"])
    try:
        body = _Body.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise MalformedBody(f"no chat completion: {where}: {first['msg']}") from error
    if not body.choices:
        raise MalformedBody("no chat completion: choices is empty")
    choice = body.choices[0]
    calls = tuple(
        ToolCall(*map(unicode_of, (call.id or f"call_{turn}_{number}", call.function.name, call.function.arguments)))
        for number, call in enumerate(choice.message.tool_calls or ())
    )
    ending = unicode_of(choice.finish_reason or "none given")
    text = unicode_of(_text_of(choice.message))
    # The line break before a call belongs to the call: templates put it there again, and the prefix cache would miss.
    text = text.rstrip() if calls else text
    return Parsed(text, calls, ending, _usage(body.usage, config), unicode_of(body.model or config.model))


def _text_of(message: _Message) -> str:
    """What the model said; its reasoning (`reasoning_content`) is no part of that."""
    content = message.content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
        content = "".join(part for part in parts if isinstance(part, str))
    return content or message.refusal or ""


def _usage(counted: _Usage | None, config: OpenAIConfig) -> Usage | None:
    if counted is None or counted.prompt_tokens is None:
        return None
    details = counted.prompt_tokens_details
    usage = Usage(
        calls=1,
        prompt_tokens=counted.prompt_tokens,
        completion_tokens=counted.completion_tokens or 0,
        cached_tokens=details.cached_tokens if details else None,
    )
    return usage.model_copy(update={"cost": config.cost(usage)})
