"""OpenHands: a row of an evaluation's `output.jsonl`, or a bare list of events.

Three layouts of `history`: pairs of (action, observation); one list of events whose observations name their `cause`;
and the events of the newer SDK, which have a `kind` (also as one file per event in a conversation's folder).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from uchide.agents.interop import fields, openhands_sdk
from uchide.agents.interop.fields import Object, items, obj, text
from uchide.agents.interop.model import Act, Imported, Step
from uchide.errors import StoreError
from uchide.records import Usage

SILENT = frozenset({"change_agent_state", "recall", "system", "null", "start", "pause", "resume", "stop", ""})
"""Actions of the program's own, no steps of the model."""
_THOUGHT = ("thought", "final_thought", "content")
_NOT_ARGUMENTS = frozenset(
    {"thought", "final_thought", "content", "confirmation_state", "security_risk", "blocking", "hidden", "is_input"}
)


def fits(data: object) -> bool:
    if isinstance(data, list):
        return bool(data) and all(_is_event(item) for item in data)
    return isinstance(obj(data).get("history"), list) and "trajectory" not in obj(data)


def _is_event(item: object) -> bool:
    if isinstance(item, list):
        return len(item) == 2 and all(_is_event(part) for part in item)
    return isinstance(item, Mapping) and ("kind" in item or "action" in item or "observation" in item)


def read(data: object) -> Imported:
    """A row, or a list of events, as our model. Raises StoreError for events that do not say what they belong to."""
    row = {"history": data} if isinstance(data, list) else obj(data)
    history = items(row.get("history"))
    metadata, result = obj(row.get("metadata")), obj(row.get("test_result"))
    llm = obj(metadata.get("llm_config")) or obj(metadata.get("llm"))
    patch = result.get("git_patch", row.get("git_patch"))
    sdk = any("kind" in obj(item) for item in history)
    opening, steps = openhands_sdk.steps(history) if sdk else _steps(history)
    return Imported(
        source="openhands-sdk" if sdk else "openhands",
        instance_id=text(row.get("instance_id")),
        model=text(llm.get("model")),
        agent=f"OpenHands {text(metadata.get('agent_class'))}".strip(),
        opening=tuple(opening),
        steps=tuple(steps),
        exit_status=_exit(row, steps),
        patch=patch if isinstance(patch, str) else None,
        declared=_declared(obj(row.get("metrics"))),
    )


def _exit(row: Object, steps: Sequence[Step]) -> str:
    if error := text(row.get("error")):
        return f"error: {error}"
    last = steps[-1].acts[-1:] if steps else ()
    return "finish" if last and last[0].tool == "finish" else ""


def _declared(metrics: Object) -> Usage | None:
    if not metrics:
        return None
    total, costs = obj(metrics.get("accumulated_token_usage")), items(metrics.get("costs"))
    cached = total.get("cache_read_tokens")
    return Usage(
        calls=len(items(metrics.get("token_usages"))) or len(costs),
        prompt_tokens=fields.number(total.get("prompt_tokens")),
        completion_tokens=fields.number(total.get("completion_tokens")),
        cached_tokens=None if cached is None else fields.number(cached),
        cost=fields.money(metrics.get("accumulated_cost")),
    )


def _steps(history: Sequence[object]) -> tuple[list[tuple[str, str]], list[Step]]:
    opening: list[tuple[str, str]] = []
    found: list[Step] = []
    by_id: dict[object, int] = {}
    for event in _events(history):
        if "action" in event:
            if event.get("source") == "agent" and text(event["action"]) not in SILENT:
                by_id[event.get("id")] = len(found)
                found.append(_step(event))
            elif not found and event["action"] in ("message", "system"):
                opening.append((text(event.get("source")) or "user", _argument(event, "content")))
        elif found and event.get("observation") not in ("agent_state_changed", "null", None):
            index = by_id.get(event.get("cause"), len(found) - 1)
            found[index] = _observed(found[index], event)
    return opening, found


def _events(history: Sequence[object]) -> list[Object]:
    """Pairs as events: the observation of a pair answers its action, whatever their ids say."""
    flat: list[Object] = []
    for number, item in enumerate(history):
        if isinstance(item, list):
            if len(item) < 2:
                raise StoreError(f"history[{number}]: a pair of {len(item)}, not of an action and its observation")
            action, observation = (obj(part) for part in item[:2])
            flat += [{**action, "id": ("pair", number)}, {**observation, "cause": ("pair", number)}]
        else:
            event = obj(item)
            for name in ("id", "cause"):
                if isinstance(event.get(name), dict | list):
                    raise StoreError(f"history[{number}].{name}: not the number of an event")
            flat.append(event)
    return flat


def _argument(event: Object, name: str) -> str:
    return text(obj(event.get("args")).get(name)) or text(event.get("message"))


def _step(event: Object) -> Step:
    args, tool = obj(event.get("args")), text(event.get("action"))
    response = obj(obj(event.get("tool_call_metadata")).get("model_response"))
    thought = next((text(args[name]) for name in _THOUGHT if args.get(name)), "")
    act = Act("bash" if tool == "run" else tool, _arguments(args))
    return Step(
        thought=thought,
        acts=() if tool in ("message", "think") else (act,),
        usage=fields.usage(response.get("usage")),
    )


def _arguments(args: Object) -> str:
    for name in ("command", "code"):
        if isinstance(args.get(name), str) and args.get("path") is None:
            return text(args[name])
    kept = {name: value for name, value in args.items() if name not in _NOT_ARGUMENTS and value not in (None, "", [])}
    return json.dumps(kept, ensure_ascii=False, sort_keys=True)


def _observed(step: Step, event: Object) -> Step:
    extras = obj(event.get("extras"))
    code = extras.get("exit_code", obj(extras.get("metadata")).get("exit_code"))
    return replace(
        step,
        observation="\n".join(part for part in (step.observation, text(event.get("content"))) if part),
        returncode=step.returncode if code is None else str(code),
        problem=text(event.get("content")) if event.get("observation") == "error" else step.problem,
    )
