"""The expert whose rollouts the tiny model learns by heart; `spec/script.yaml` is what it says."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from uchide.actions import FORMATS, Call
from uchide.errors import ModelError
from uchide.protocols import ChatReply, ChatRequest, Message, ToolCall
from uchide.records import Usage

INSTANCE = "spanlib-208"
Said = dict[str, str]
"""One reply: `token`, `thought`, and `command` or `memo`."""


@cache
def script() -> dict[str, list[Said]]:
    """Replies by phase."""
    text = (Path(__file__).parent / "spec" / "script.yaml").read_text(encoding="utf-8")
    loaded: dict[str, list[Said]] = yaml.safe_load(text)
    return loaded


@dataclass(frozen=True)
class Exchange:
    """What was asked, and the reply to learn."""

    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    """Of the API."""
    reply: Message


@dataclass
class Expert:
    """Plays the script in one action format; the place and the replies given in this conversation say where it is."""

    action_format: str
    name: str = "expert"
    tools: tuple[str, ...] = ()
    learned: list[Exchange] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        given = sum(message.role == "assistant" for message in request.messages)
        replies = script()[request.place]
        if given >= len(replies):
            told = request.messages[-1].content
            raise ModelError(f"the expert has {given} replies for {request.place} and was told: {told}")
        reply = self._reply(replies[given], f"call-{given}")
        tools = tuple(tool.name for tool in request.tools)
        self.learned.append(Exchange(tuple(request.messages), tools, reply))
        ending = "tool_calls" if reply.tool_calls else "stop"
        return ChatReply(reply.content, Usage(calls=1), ending, self.name, reply.tool_calls)

    def _reply(self, said: Said, call_id: str) -> Message:
        text = f"WORKFLOW: {said['token']}\nTHOUGHT: {said['thought']}"
        form = FORMATS[self.action_format]
        if "command" not in said:
            return Message("assistant", f"{text}\nFINAL_ANSWER:\n{said['memo']}")
        call = Call("bash", {"command": said["command"]})
        if form.native:
            return Message("assistant", text, (ToolCall(call_id, call.name, json.dumps(call.arguments)),))
        return Message("assistant", f"{text}\nFINAL_ANSWER:\n{form.write(call)}")

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return None

    async def aclose(self) -> None:
        pass
