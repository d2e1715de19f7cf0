"""Events of OpenHands' software-agent SDK: each has a `kind`; calls of one reply share their `llm_response_id`."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uchide.agents.interop import fields
from uchide.agents.interop.fields import Object, obj, text
from uchide.agents.interop.model import Imported, Step
from uchide.errors import StoreError

_FILE = re.compile(r"event-(\d+)-.*\.json")
_ANSWERS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")


def events_folder(folder: Path) -> Path | None:
    """Where a conversation's folder keeps its events; None where it is no such folder."""
    for place in (folder / "events", folder):
        if place.is_dir() and any(_FILE.fullmatch(item.name) for item in place.iterdir()):
            return place
    return None


def read_folder(folder: Path) -> list[object]:
    """The events of a conversation's folder, by their numbers. Raises StoreError for a file that is not JSON."""
    place = events_folder(folder) or folder
    numbered = [(found, item) for item in place.iterdir() if (found := _FILE.fullmatch(item.name))]
    events: list[object] = []
    for _, item in sorted(numbered, key=lambda pair: int(pair[0][1])):
        try:
            events.append(fields.parsed(item.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise StoreError(f"{item} is not an event of OpenHands: {error}") from error
    return events


def steps(history: Sequence[object]) -> tuple[list[tuple[str, str]], list[Step]]:
    """What was said before the first reply, and the steps."""
    opening: list[tuple[str, str]] = []
    found: list[Step] = []
    by_call: dict[str, int] = {}
    reply = ""
    for event in map(obj, history):
        kind = event.get("kind")
        if kind == "ActionEvent":
            again = text(event.get("llm_response_id"))
            if found and again and again == reply:
                found[-1] = replace(found[-1], acts=(*found[-1].acts, *_step(event).acts))
            else:
                found.append(_step(event))
            reply = again
            by_call[text(event.get("tool_call_id"))] = len(found) - 1
        elif kind in _ANSWERS and found:
            index = by_call.get(text(event.get("tool_call_id")), len(found) - 1)
            found[index] = _observed(found[index], event)
        elif kind == "MessageEvent" and event.get("source") == "agent":
            found.append(Step(thought=_message(event)))
        elif kind in ("MessageEvent", "SystemPromptEvent"):
            said = _message(event) or text(obj(event.get("system_prompt")).get("text"))
            if found:
                found[-1] = replace(found[-1], observation="\n".join(filter(None, (found[-1].observation, said))))
            else:
                opening.append(("system" if kind == "SystemPromptEvent" else "user", said))
    return opening, found


def with_state(imported: Imported, folder: Path) -> Imported:
    """What a conversation's `base_state.json` adds. Raises StoreError when it is not JSON."""
    path = folder / "base_state.json"
    if not path.is_file():
        return imported
    try:
        state = obj(fields.parsed(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    model = text(obj(obj(state.get("agent")).get("llm")).get("model"))
    return replace(
        imported, model=imported.model or model, exit_status=text(state.get("execution_status")) or imported.exit_status
    )


def _message(event: Object) -> str:
    return text(obj(event.get("llm_message")).get("content"))


def _step(event: Object) -> Step:
    called = obj(event.get("tool_call"))
    name = text(event.get("tool_name")) or text(called.get("name"))
    arguments = {key: value for key, value in obj(event.get("action")).items() if key != "kind" and value is not None}
    act = fields.call(name, arguments or called.get("arguments") or {})
    thought = text(event.get("thought")) or text(event.get("reasoning_content"))
    return Step(thought=thought, acts=(act,))


def _observed(step: Step, event: Object) -> Step:
    seen = obj(event.get("observation"))
    problem = text(event.get("error")) or text(event.get("rejection_reason"))
    said = text(seen.get("content")) or text(seen.get("output")) or problem
    code = seen.get("exit_code", obj(seen.get("metadata")).get("exit_code"))
    return replace(
        step,
        observation="\n".join(part for part in (step.observation, said) if part),
        returncode=step.returncode if code is None else str(code),
        problem=problem or step.problem,
    )
