"""Writes our trajectories as ATIF 1.7: one step per message of a rebuilt conversation, and one per model call.

ATIF 1.8 only adds audio; 1.7 is what more readers take. What the format has no place for is in `extra.uchide`.
"""

import json
from collections.abc import Iterator
from typing import Any

from uchide import __version__
from uchide.agents.interop.fields import parsed
from uchide.agents.interop.own import Rollout
from uchide.agents.trajectory import CallRecord, ContextRecord, TurnRecord
from uchide.records import Usage

FORMAT = "ATIF-v1.7"
_SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "user"}


def export(rollout: Rollout) -> dict[str, Any]:
    """The document, as JSON data."""
    header, end = rollout.header, rollout.end
    steps = [{"step_id": number, **step} for number, step in enumerate(_steps(rollout), start=1)]
    extra: dict[str, Any] = {
        "instance_id": header.instance_id,
        "arm": header.arm,
        "run": header.run,
        "seed": header.seed,
        "base_tree": header.base_tree,
    }
    if end:
        extra |= {"exit_status": end.exit_status, "patch_sha256": end.patch_sha256, "warnings": list(end.warnings)}
    if rollout.patch is not None:
        extra["patch"] = rollout.patch
    document = {
        "schema_version": FORMAT,
        "session_id": header.candidate_id,
        "agent": {
            "name": f"uchide/{header.agent}",
            "version": __version__,
            "model_name": header.model,
            "extra": {"action_format": header.action_format, "tools": list(header.tools)},
        },
        "steps": steps or [{"step_id": 1, "source": "system", "message": "The rollout ended before it began."}],
    }
    if end:
        document["final_metrics"] = _final(end.usage, len(steps) or 1)
    return {**document, "extra": extra}


def _steps(rollout: Rollout) -> Iterator[dict[str, Any]]:
    for record in rollout.records:
        if isinstance(record, ContextRecord):
            yield from _context(record)
        elif isinstance(record, CallRecord):
            own = {"phase": record.phase, "visit": record.visit, "role": record.role, "call": True, "turn": record.turn}
            yield {**_agent(record.reply, record.usage), "extra": {"uchide": own}}
        elif isinstance(record, TurnRecord):
            yield _turn(record)


def _context(record: ContextRecord) -> Iterator[dict[str, Any]]:
    own = {"phase": record.phase, "visit": record.visit, "reason": record.reason}
    for message in record.messages:
        step: dict[str, Any] = {"source": _SOURCES[message.role], "message": message.content}
        if message.role in ("assistant", "tool"):
            step["is_copied_context"] = True
        yield {**step, "extra": {"uchide": own}}


def _agent(reply: str, usage: Usage) -> dict[str, Any]:
    metrics = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost,
    }
    known = {name: value for name, value in metrics.items() if value is not None}
    return {"source": "agent", "message": reply, "metrics": known, "llm_call_count": 1}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    step = _agent(turn.reply, turn.usage)
    call_id = turn.tool_calls[0].id if turn.tool_calls and turn.tool_calls[0].id else f"turn-{turn.n}"
    if turn.action is not None:
        call = {"tool_call_id": call_id, "function_name": turn.tool, "arguments": _arguments(turn)}
        step["tool_calls"] = [call]
    if turn.observation is not None:
        source = {"source_call_id": call_id} if turn.action is not None else {}
        step["observation"] = {"results": [{**source, "content": turn.observation}]}
    problems = [turn.format_error or "", f"refused, missing: {', '.join(turn.rejected)}" if turn.rejected else ""]
    own: dict[str, Any] = {"n": turn.n, "phase": turn.phase, "visit": turn.visit, "role": turn.role, "t": turn.t}
    told = {
        "token": turn.token,
        "returncode": "" if turn.returncode is None else str(turn.returncode),
        "problem": "; ".join(filter(None, problems)),
    }
    own |= {name: value for name, value in told.items() if value}
    return {**step, "extra": {"uchide": own}}


def _arguments(turn: TurnRecord) -> dict[str, Any]:
    if turn.tool == "bash":
        return {"command": turn.action}
    try:
        arguments = parsed(turn.action or "")
    except ValueError:
        return {"text": turn.action}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def _final(usage: Usage, steps: int) -> dict[str, Any]:
    metrics = {
        "total_prompt_tokens": usage.prompt_tokens,
        "total_completion_tokens": usage.completion_tokens,
        "total_cached_tokens": usage.cached_tokens,
        "total_cost_usd": usage.cost,
        "total_steps": steps,
    }
    known = {name: value for name, value in metrics.items() if value is not None}
    return {**known, "extra": {"calls": usage.calls}}


def text(rollout: Rollout) -> str:
    """The document as the text of a file."""
    return json.dumps(export(rollout), indent=2) + "\n"
