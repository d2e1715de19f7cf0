"""A chat model for tests: it says what a script says, and keeps what it was asked."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from uchide.errors import ModelError
from uchide.protocols import ChatReply, ChatRequest, Message
from uchide.records import Usage

Answer = str | ChatReply | Callable[[ChatRequest], str]


def turn(token: str, action: str | None = None, memo: str = "", thought: str = "thinking") -> str:
    """A well-formed reply."""
    answer = f"<tool: bash> {action} </tool>" if action is not None else memo
    return f"WORKFLOW: {token}\nTHOUGHT: {thought}\nFINAL_ANSWER:\n{answer}"


def header(messages: Iterable[Message]) -> dict[str, Any]:
    """The machine-readable first line of a system prompt."""
    system = next(message for message in messages if message.role == "system")
    name, _, data = system.content.partition("\n")[0].partition(" ")
    assert name == "UCHIDE-HEADER"
    return json.loads(data)


@dataclass
class Scripted:
    """Answers in order; a ModelError when the script is over. A callable answer sees the request."""

    answers: Iterable[Answer]
    name: str = "scripted"
    tools: tuple[str, ...] = ()
    requests: list[list[Message]] = field(default_factory=list)
    keep: bool = True
    tokens: int | None = None
    """Its context window."""

    def __post_init__(self) -> None:
        self._answers = iter(self.answers)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if self.keep:
            self.requests.append(list(request.messages))
        answer = next(self._answers, None)
        if answer is None:
            raise ModelError("the script is over")
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, ChatReply):
            return answer
        return ChatReply(answer, Usage(calls=1, prompt_tokens=100, completion_tokens=10))

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return self.tokens

    async def aclose(self) -> None:
        pass
