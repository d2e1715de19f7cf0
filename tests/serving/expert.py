"""The expert whose rollouts the tiny model learns by heart; `spec/script_<agent>.yaml` is what it says to an agent."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from uchide.actions import FORMATS, Call
from uchide.errors import ModelError
from uchide.protocols import ChatReply, ChatRequest, Message, ToolCall
from uchide.records import Usage

INSTANCE = "spanlib-208"


class Said(BaseModel):
    """One reply: a text, perhaps led by the workflow token of the phases agent, and perhaps a call of a tool."""

    model_config = ConfigDict(extra="forbid")

    token: str = ""
    text: str
    command: str = ""
    """For `bash`."""
    tool: str = "bash"
    arguments: dict[str, Any] | None = None
    memo: str = ""

    @property
    def call(self) -> Call | None:
        arguments = {"command": self.command} if self.command else self.arguments
        return None if arguments is None else Call(self.tool, arguments)


@cache
def script(agent: str) -> dict[str, list[Said]]:
    """Replies by phase or node, `PLACE.role` where the role is not the agent's own."""
    text = (Path(__file__).parent / "spec" / f"script_{agent}.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, list[Said]]).validate_python(yaml.safe_load(text))


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

    agent: str
    action_format: str
    name: str = "expert"
    tools: tuple[str, ...] = ()
    learned: list[Exchange] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        given = sum(message.role == "assistant" for message in request.messages)
        replies = script(self.agent)[request.place if request.role == "agent" else f"{request.place}.{request.role}"]
        if given >= len(replies):
            told = request.messages[-1].content
            raise ModelError(f"the expert has {given} replies for {request.place} and was told: {told}")
        reply = self._reply(replies[given], f"call-{given}")
        tools = tuple(tool.name for tool in request.tools)
        self.learned.append(Exchange(tuple(request.messages), tools, reply))
        ending = "tool_calls" if reply.tool_calls else "stop"
        return ChatReply(reply.content, Usage(calls=1), ending, self.name, reply.tool_calls)

    def _reply(self, said: Said, call_id: str) -> Message:
        form, call = FORMATS[self.action_format], said.call
        text = f"WORKFLOW: {said.token}\nTHOUGHT: {said.text}" if said.token else said.text
        if call is not None and form.native:
            return Message("assistant", text, (ToolCall(call_id, call.name, json.dumps(call.arguments)),))
        answer = form.write(call) if call is not None else said.memo
        return Message("assistant", "\n".join(filter(None, (text, "FINAL_ANSWER:" if said.token else "", answer))))

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return None

    async def aclose(self) -> None:
        pass
