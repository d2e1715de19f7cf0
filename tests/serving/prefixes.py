"""How much of a rollout's prompts a prefix cache could have served: counted from the requests themselves."""

import json
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message, ToolSpec

from .server import Server


@dataclass
class Logged:
    """A model that keeps what it was asked and what it answered."""

    model: ChatModel
    tools: tuple[str, ...] = ()
    log: list[tuple[ChatRequest, ChatReply]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, request: ChatRequest) -> ChatReply:
        kept = ChatRequest(tuple(request.messages), request.sampling, tools=request.tools)
        reply = await self.model.complete(request)
        self.log.append((kept, reply))
        return reply

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return await self.model.window(place, role)

    async def aclose(self) -> None:
        await self.model.aclose()


def achievable(server: Server, log: Sequence[tuple[ChatRequest, ChatReply]], block: int) -> int:
    """Prompt tokens that stood, in whole blocks, at the beginning of an earlier request or of it with its answer. The
    last token of a prompt is always computed."""
    seen: list[list[int]] = []
    total = 0
    for request, reply in log:
        prompt = tokens(server, request.messages, request.tools)
        shared = max((_common(prompt[:-1], earlier) for earlier in seen), default=0)
        total += shared // block * block
        answer = Message("assistant", reply.text, reply.tool_calls)
        seen.append(tokens(server, [*request.messages, answer], request.tools, asking=False))
    return total


def tokens(server: Server, messages: Sequence[Message], tools: Sequence[ToolSpec], *, asking: bool = True) -> list[int]:
    """The prompt as the server cuts it."""
    body: dict[str, Any] = {"model": "tiny", "messages": [_plain(message) for message in messages]}
    body["add_generation_prompt"] = asking
    if tools:
        body["tools"] = [
            {"type": "function", "function": {"name": tool.name, "parameters": dict(tool.parameters)}} for tool in tools
        ]
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}/tokenize", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        found: list[int] = json.loads(reply.read())["tokens"]
    return found


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
