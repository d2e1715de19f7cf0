"""mini-swe-agent's `.traj.json`: every layout, read into our model.

The oldest layout is a list of chat messages. Later ones have `messages` and `info`; from version 2 on, an assistant
message carries its parsed actions in `extra` (or is an object of the Responses API), a reply that could not be parsed
is kept only in the message that says so, and an `exit` message comes last. A published variant adds `phase` and
`timestamp` to its messages, and its stubs name exit status and patch in fields of their own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from uchide.agents.interop import fields
from uchide.agents.interop.fields import Object, items, obj, text
from uchide.agents.interop.model import Act, Imported, Step
from uchide.records import Usage

_RETURNCODE = re.compile(r"<returncode>\s*(-?\d+|[a-z]+)\s*</returncode>")
STUB = ("agent_exit_status", "model_patch")


def fits(data: object) -> bool:
    """Whether this is one of the layouts."""
    if isinstance(data, list):
        return bool(data) and all(isinstance(item, Mapping) and _role(item) for item in data)
    top = obj(data)
    return isinstance(top.get("messages"), list) or any(name in top or name in obj(top.get("info")) for name in STUB)


def read(data: object) -> Imported:
    """Any layout as our model."""
    top = obj(data)
    info = obj(top.get("info"))
    messages = list(map(obj, items(data if isinstance(data, list) else top.get("messages"))))
    reading = _Reading()
    for message in messages:
        reading.take(message)
    last = obj(messages[-1].get("extra")) if messages else {}
    return Imported(
        source="mini-swe-agent",
        instance_id=text(top.get("instance_id")),
        model=text(obj(obj(info.get("config")).get("model")).get("model_name")),
        agent=f"mini-swe-agent {text(info.get('mini_version'))}".strip(),
        opening=tuple(reading.opening),
        steps=tuple(reading.steps),
        exit_status=_first((info, top, last), ("exit_status", "agent_exit_status")) or "",
        patch=_first((info, top, last), ("submission", "model_patch")),
        declared=_declared(reading.steps, obj(info.get("model_stats")), obj(obj(info.get("uchide")).get("usage"))),
    )


def _first(places: Iterable[Object], names: tuple[str, ...]) -> str | None:
    found = [place[name] for place in places for name in names if isinstance(place.get(name), str)]
    return next((value for value in found if value), found[0] if found else None)


def _declared(steps: list[Step], stats: Object, own: Object) -> Usage | None:
    """The totals: calls and cost as the file says, tokens as its messages do (as it says itself where we wrote it)."""
    if not stats:
        return None
    summed = fields.usage(own) or Imported(source="", steps=tuple(steps)).usage
    calls, cost = fields.number(stats.get("api_calls")), fields.money(stats.get("instance_cost"))
    return (summed or Usage()).model_copy(update={"calls": calls or len(steps), "cost": cost or None})


def _role(message: Object) -> str:
    """Its role; messages of the Responses API have a type instead."""
    if isinstance(role := message.get("role"), str):
        return role
    if message.get("object") == "response" or isinstance(message.get("output"), list):
        return "assistant"
    return "tool" if message.get("type") == "function_call_output" else ""


class _Reading:
    """Messages in order; what follows a reply until the next one is its observation."""

    def __init__(self) -> None:
        self.opening: list[tuple[str, str]] = []
        self.steps: list[Step] = []
        self._visits: dict[str, int] = {}
        self._in_opening = True

    def take(self, message: Object) -> None:
        role, extra = _role(message), obj(message.get("extra"))
        if obj(extra.get("uchide")).get("copied"):
            return
        if role == "assistant":
            self._in_opening = False
            self.steps.append(self._step(message))
        elif role == "system":
            self._open(message)
        elif role == "exit":
            return
        elif self._in_opening:
            self.opening += [(role, _said(message))] if not self.steps else []
        else:
            self._observe(message, extra)

    def _open(self, message: Object) -> None:
        self._in_opening = True
        phase = text(message.get("phase"))
        self._visits[phase] = self._visits.get(phase, 0) + 1
        if not self.steps:
            self.opening.append(("system", _said(message)))

    def _step(self, message: Object) -> Step:
        extra, reply, phase = obj(message.get("extra")), _said(message), text(message.get("phase"))
        own = obj(extra.get("uchide"))
        phase = phase or text(own.get("phase"))
        thought, written = fields.written(reply)
        return Step(
            thought=thought,
            acts=_acts(message) if "actions" in extra else _acts(message) or written,
            usage=fields.usage(obj(extra.get("response")).get("usage") or message.get("usage"), extra.get("cost")),
            phase=phase,
            visit=fields.number(own.get("visit")) or max(1, self._visits.get(phase, 1)),
            token=fields.token(reply),
            returncode=text(own.get("returncode")),
        )

    def _observe(self, message: Object, extra: Object) -> None:
        said = _said(message) or text(message.get("output"))
        response = obj(extra.get("response"))
        failed = extra.get("interrupt_type") == "FormatError"
        if failed and response:  # the reply itself is kept nowhere else
            choice = obj(next(iter(items(response.get("choices"))), None))
            self.steps.append(self._step({**obj(choice.get("message")), "extra": {"response": response}}))
        if not self.steps:
            self.opening.append((_role(message), said))
            return
        step, code = self.steps[-1], extra.get("returncode")
        found = _RETURNCODE.search(said)
        returncode = str(code) if code is not None else found[1] if found else step.returncode
        self.steps[-1] = replace(
            step,
            acts=() if failed else step.acts,
            observation="\n".join(part for part in (step.observation, said) if part),
            returncode=returncode,
            problem="the reply could not be parsed" if failed else step.problem,
        )


def _said(message: Object) -> str:
    output = message.get("output")
    if isinstance(output, list):
        return "\n".join(filter(None, (text(obj(item).get("content")) for item in output)))
    return text(message.get("content"))


def _acts(message: Object) -> tuple[Act, ...]:
    parsed = [obj(action).get("command") for action in items(obj(message.get("extra")).get("actions"))]
    if commands := tuple(Act("bash", command) for command in parsed if isinstance(command, str)):
        own = text(obj(obj(message.get("extra")).get("uchide")).get("tool"))
        return tuple(replace(act, tool=own) for act in commands) if own else commands
    if calls := fields.openai_calls(message.get("tool_calls")):
        return calls
    found = [obj(item) for field in ("output", "content") for item in items(message.get(field))]
    return tuple(_act(item) for item in found if item.get("type") in ("function_call", "tool_use"))


def _act(item: Mapping[str, Any]) -> Act:
    return fields.call(text(item.get("name")), item.get("arguments", item.get("input")))
