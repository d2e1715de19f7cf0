"""Writes our trajectories as mini-swe-agent's `.traj.json` in its current layout (`mini-swe-agent-1.1`).

What that layout has no place for (phase, visit, token, other calls of the turn) is in `extra.uchide` of a message.
"""

import json
from collections.abc import Iterator
from typing import Any

from uchide import __version__
from uchide.agents.interop.fields import number
from uchide.agents.interop.own import Rollout
from uchide.agents.trajectory import CallRecord, ContextRecord, MessageRecord, ToolCallRecord, TurnRecord, exchange
from uchide.records import Usage

FORMAT = "mini-swe-agent-1.1"


def export(rollout: Rollout) -> dict[str, Any]:
    """The document, as JSON data."""
    header, end = rollout.header, rollout.end
    status, patch = (end.exit_status if end else ""), rollout.patch or ""
    usage = end.usage if end else Usage()
    last = {"role": "exit", "content": status, "extra": {"exit_status": status, "submission": patch}}
    return {
        "info": {
            "model_stats": {"instance_cost": usage.cost or 0.0, "api_calls": usage.calls},
            "config": {
                "agent": {"name": header.agent, "action_format": header.action_format, "tools": list(header.tools)},
                "agent_type": f"uchide.agents.{header.agent}",
                "model": {"model_name": header.model},
            },
            "mini_version": f"uchide {__version__}",
            "exit_status": status,
            "submission": patch,
            "uchide": {"usage": {**_usage(usage), "calls": usage.calls}},
        },
        "messages": [*_messages(rollout), *([last] if end else [])],
        "trajectory_format": FORMAT,
        "instance_id": header.instance_id,
    }


def _messages(rollout: Rollout) -> Iterator[dict[str, Any]]:
    calls: list[CallRecord] = []
    for record in rollout.records:
        if isinstance(record, ContextRecord):
            yield from _context(record)
        elif isinstance(record, CallRecord):
            calls.append(record)
        elif isinstance(record, TurnRecord):
            yield _reply(record, calls)
            yield from _observation(record)
            calls = []


def _context(record: ContextRecord) -> Iterator[dict[str, Any]]:
    place = {"phase": record.phase, "visit": record.visit, "reason": record.reason}
    opened = False
    for message in record.messages:
        # What a rebuilt conversation repeats of earlier turns is there to be read, not to be counted again.
        copied = {"copied": True} if opened and message.role not in ("system", "user") else {}
        opened = True
        yield {**_chat(message), "extra": {"uchide": {**place, **copied}}}


def _chat(message: MessageRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        found["tool_calls"] = list(map(_call, message.tool_calls))
    if message.tool_call_id:
        found["tool_call_id"] = message.tool_call_id
    return found


def _call(call: ToolCallRecord) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _reply(turn: TurnRecord, calls: list[CallRecord]) -> dict[str, Any]:
    own: dict[str, Any] = {"phase": turn.phase, "visit": turn.visit, "token": turn.token, "tool": turn.tool}
    if turn.returncode is not None:
        own["returncode"] = str(turn.returncode)
    if calls:
        own["calls"] = [{"role": call.role, "reply": call.reply, "usage": _usage(call.usage)} for call in calls]
    message = MessageRecord(role="assistant", content=turn.reply, tool_calls=turn.tool_calls)
    action = {"command": turn.action}
    if turn.tool_calls:
        action["tool_call_id"] = turn.tool_calls[0].id
    return {
        **_chat(message),
        "extra": {
            "actions": [] if turn.action is None else [action],
            "response": {"usage": _usage(turn.usage)},
            "cost": turn.usage.cost or 0.0,
            "timestamp": turn.t,
            "uchide": own,
        },
    }


def _usage(usage: Usage) -> dict[str, Any]:
    total = usage.prompt_tokens + usage.completion_tokens
    found: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": total,
    }
    if usage.cached_tokens is not None:
        found["prompt_tokens_details"] = {"cached_tokens": number(usage.cached_tokens)}
    return found


def _observation(turn: TurnRecord) -> Iterator[dict[str, Any]]:
    """What the model was shown; nothing where the conversation ended with its reply."""
    if turn.observation is None:
        return
    extra: dict[str, Any] = {"timestamp": turn.t}
    if turn.format_error:
        extra |= {"interrupt_type": "FormatError", "uchide": {"format_error": turn.format_error}}
    elif turn.returncode is not None:
        extra |= {"returncode": turn.returncode, "raw_output": turn.observation}
    answers = exchange(turn.reply, turn.observation, [call.tool_call() for call in turn.tool_calls])[1:]
    for message in answers:
        yield {**_chat(MessageRecord.of(message)), "extra": extra}


def text(rollout: Rollout) -> str:
    """The document as the text of a file."""
    return json.dumps(export(rollout), indent=2) + "\n"
