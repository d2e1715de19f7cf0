"""A request as its two files: for people what is new, for programs everything."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from uchide.protocols import ChatRequest, ToolSpec

HEADER = "UCHIDE-HEADER "
"""Agents put what a program may want to know on the first line of the system prompt."""


def header_of(messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the agent's header says (phase, share, products due, tools, action format); empty without one."""
    first = messages[0]["content"].partition("\n")[0] if messages else ""
    if not first.startswith(HEADER):
        return {}
    try:
        data = json.loads(first.removeprefix(HEADER))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def for_programs(
    request: ChatRequest, number: int, key: str, messages: Sequence[dict[str, Any]], timeout_s: float
) -> dict[str, Any]:
    """The content of a `request.json`."""
    header = header_of(messages)
    return {
        "schema_version": 1,
        "n": number,
        "request": key,
        "session": request.session,
        "group": request.group,
        "place": request.place,
        "role": request.role,
        "sampling": {
            "seed": request.sampling.seed,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "max_tokens": request.sampling.max_tokens,
        },
        "tools": [_tool(tool) for tool in request.tools],
        "action_format": header.get("action_format"),
        "header": header,
        "messages": list(messages),
        "asked": datetime.now(UTC).isoformat(timespec="seconds"),
        "timeout_s": timeout_s,
    }


def for_people(data: dict[str, Any], keeps: int, stem: str, note: str) -> str:
    """The content of a `request.md`: messages after the first `keeps`, the model's own answers left out."""
    messages = data["messages"]
    new = [message for message in messages[keeps:] if message["role"] != "assistant" or not keeps]
    lines = [
        f"# {data['session'] or 'request'}: question {data['n']}",
        "",
        f"{data['place'] or 'no place'}, role {data['role']}. Answer in `{stem}.answer.md` (text) or "
        f"`{stem}.answer.json`.",
        f"{len(new)} of {len(messages)} messages are new; all of them are in `{stem}.request.json`.",
    ]
    if note:
        lines += ["", f"**{note}**"]
    for message in new:
        lines += ["", f"---------- {message['role']} ----------", "", message["content"]]
        lines += [f"[call {call['name']} {call['arguments']}]" for call in message.get("tool_calls", [])]
    if data["tools"]:
        lines += ["", "---------- tools (answer.json, `tool_calls`) ----------", ""]
        lines += [
            f"- {tool['name']}: {tool['description']} {json.dumps(tool['parameters'], ensure_ascii=False)}"
            for tool in data["tools"]
        ]
    return "\n".join(lines) + "\n"


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
