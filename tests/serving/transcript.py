"""From what an expert was asked to the texts a model learns: rendered by the model's own chat template."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment

from uchide.protocols import Message

from .expert import Exchange

TEMPLATE = Path(__file__).parent / "tiny" / "chat_template.jinja"
Conversation = list[tuple[str, bool]]
"""Pieces of text in order, each with whether it is learned."""


def conversations(exchanges: Sequence[Exchange]) -> list[Conversation]:
    """One for each line of talk: an exchange that another one continues is part of that one."""
    talks = [(exchange.tools, (*exchange.messages, exchange.reply)) for exchange in exchanges]
    continued = {(tools, talk[:end]) for tools, talk in talks for end in range(1, len(talk))}
    return [_pieces(talk, tools) for tools, talk in dict.fromkeys(talks) if (tools, talk) not in continued]


def _pieces(talk: tuple[Message, ...], tools: tuple[str, ...]) -> Conversation:
    pieces: Conversation = []
    done = ""
    for number, message in enumerate(talk):
        if message.role == "assistant":
            asked, answered = render(talk[:number], tools, asking=True), render(talk[: number + 1], tools)
            assert asked.startswith(done)
            assert answered.startswith(asked)
            pieces += [(asked[len(done) :], False), (answered[len(asked) :].removesuffix("\n"), True)]
            done = answered.removesuffix("\n")
    return pieces


def render(messages: Sequence[Message], tools: Sequence[str] = (), *, asking: bool = False) -> str:
    """The prompt that a server makes of these messages; `tools` are names of API tools."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(TEMPLATE.read_text())
    return template.render(
        messages=[_plain(message) for message in messages],
        tools=[{"function": {"name": name}} for name in tools],
        add_generation_prompt=asking,
    )


def _plain(message: Message) -> dict[str, Any]:
    calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls]
    return {"role": message.role, "content": message.content, "tool_calls": calls}
