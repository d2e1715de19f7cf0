"""What a user may say about an inbox, and what an answer file may hold."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uchide.errors import ConfigError
from uchide.protocols import ChatReply, ToolCall
from uchide.records import Usage


class InboxConfig(BaseModel):
    """Options of the model in an experiment file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dir: str = Field(min_length=1)
    """Folder for requests and answers; made when it is not there."""
    timeout_s: float = Field(default=24 * 3600.0, gt=0)
    """How long one answer is waited for. The agent's own wall time ends a rollout too."""
    poll_s: float = Field(default=0.5, gt=0)
    settle_s: float = Field(default=0.5, ge=0)
    """How long a text must not have changed before it is taken."""
    window: int | None = Field(default=None, gt=0)
    """Tokens that whoever answers can read and write together; None: no limit."""

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "InboxConfig":
        """Raises ConfigError for an unknown or wrong option."""
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise ConfigError(
                _first(error, "model"), hint="options of inbox: " + ", ".join(cls.model_fields)
            ) from error


class AnsweredCall(BaseModel):
    """A tool call of an answer; `arguments` may be an object or JSON text."""

    model_config = ConfigDict(extra="forbid")

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class Answer(BaseModel):
    """The content of an `answer.json`."""

    model_config = ConfigDict(extra="forbid")

    text: str = ""
    tool_calls: list[AnsweredCall] = []
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None
    model: str = "inbox"
    usage: Usage = Usage(calls=1)
    request: str | None = None
    """Digest of the request that is answered; None: that of the same number."""

    def reply(self, number: int) -> ChatReply:
        """The same as a reply of a model. Calls without an id get one from the request's number."""
        calls = tuple(
            ToolCall(call.id or f"call_{number}_{place}", call.name, _text(call.arguments))
            for place, call in enumerate(self.tool_calls)
        )
        reason = self.finish_reason or ("tool_calls" if calls else "stop")
        return ChatReply(self.text, self.usage, reason, self.model, calls)


def parse_answer(data: bytes) -> Answer:
    """Raises ValueError that says what is wrong with the file."""
    try:
        return Answer.model_validate_json(data)
    except ValidationError as error:
        raise ValueError(_first(error, "answer")) from error


def _first(error: ValidationError, where: str) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join([where, *map(str, first['loc'])])}: {first['msg']}"


def _text(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
