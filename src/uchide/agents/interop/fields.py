"""Reading values out of other people's JSON: what is not of the expected kind counts as absent."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from uchide.actions import FORMATS, Call
from uchide.agents.interop.model import Act
from uchide.records import Usage

Object = Mapping[str, Any]
DEEPEST, DIGITS = 100, 300
"""Levels of nesting and digits of a number that no real file reaches; readers recurse and convert within them."""


def parsed(data: str) -> object:
    """The value of a JSON text. Raises ValueError for what is none, or is nested or long-numbered beyond all reason."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    _check(value)
    return value


def _check(whole: object) -> None:
    left: list[tuple[str, int, object]] = [("", 0, whole)]
    while left:
        where, depth, value = left.pop()
        if depth > DEEPEST:
            raise ValueError(f"{where[:80]}...: it is nested more than {DEEPEST} levels deep")
        if isinstance(value, int) and abs(value) >= 10**DIGITS:
            raise ValueError(f"{where}: a number of more than {DIGITS} digits")
        if isinstance(value, dict):
            left += [(f"{where}.{key}".lstrip("."), depth + 1, inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [(f"{where}[{number}]", depth + 1, inner) for number, inner in enumerate(value)]


def obj(value: object) -> Object:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """A text; of chat content in parts, the texts of its parts, one per line."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(part for part in map(_part, value) if part)
    return ""


def _part(value: object) -> str:
    if isinstance(value, str):
        return value
    part = obj(value)
    kind = part.get("type")
    if kind in ("image", "image_url", "audio"):
        return f"[{kind}]"
    return text(part.get("text")) or text(part.get("content"))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number(value: object) -> int:
    """A count; 0 for anything that is none."""
    return int(value) if _is_number(value) and value >= 0 else 0


def money(value: object) -> float | None:
    """US dollars; None for anything that is no number."""
    return float(value) if _is_number(value) else None


def usage(value: object, cost: object = None) -> Usage | None:
    """Tokens as the OpenAI and Anthropic APIs name them; None where there are none."""
    found = obj(value)
    names = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    if not any(name in found for pair in names for name in pair):
        return None
    prompt, completion = (next((number(found[name]) for name in pair if name in found), 0) for pair in names)
    details = obj(found.get("prompt_tokens_details")).get("cached_tokens")
    cached = None if details is None else number(details)
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, cost=money(cost))


def call(name: str, arguments: object) -> Act:
    """A call of an API tool, its arguments an object or JSON text."""
    data = arguments
    if isinstance(arguments, str):
        try:
            data = parsed(arguments)
        except ValueError:
            return Act(name, arguments)
    command = obj(data).get("command")
    if isinstance(command, str) and set(obj(data)) <= SHELL_KEYS:
        return Act(name, command)
    return Act(name, json.dumps(data, ensure_ascii=False, sort_keys=True))


SHELL_KEYS = {"command", "timeout", "is_input", "reset", "kind", "security_risk", "summary", "blocking", "cwd"}
"""A call with a command and no other argument than these is one of a shell."""


def openai_calls(value: object) -> tuple[Act, ...]:
    """`tool_calls` of a chat message."""
    found = [obj(obj(item).get("function")) for item in items(value)]
    return tuple(call(text(function.get("name")), function.get("arguments")) for function in found if function)


_FENCED = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n```", re.DOTALL)
_ACTION_BEGINS = re.compile(
    r"^[ \t]*FINAL_ANSWER[ \t]*:|```(?:mswea_bash_command|bash|sh)\b|<tool: |<tool_call>|\[TOOL_CALLS\]",
    re.IGNORECASE | re.MULTILINE,
)
_THOUGHT = re.compile(r"\A(?:\s*WORKFLOW[ \t]*:[^\n]*\n)?\s*THOUGHT[ \t]*:", re.IGNORECASE)
_WORKFLOW = re.compile(r"\A\s*WORKFLOW[ \t]*:[ \t]*(\S+)", re.IGNORECASE)


def written(reply: str) -> tuple[str, tuple[Act, ...]]:
    """The thought of a reply, and the only action written in its text: a fenced block, or one of our tagged formats."""
    acts = _written_acts(reply)
    mark = _ACTION_BEGINS.search(reply) if acts else None
    return _THOUGHT.sub("", reply[: mark.start()] if mark else reply, count=1).strip(), acts


def _written_acts(reply: str) -> tuple[Act, ...]:
    for name in ("tool_bash", "tool_call", "toolcall"):
        found = FORMATS[name].read(reply, ())
        if isinstance(found, Call):
            return (call(found.name, dict(found.arguments)),)
    fenced = _FENCED.findall(reply)
    return (Act("bash", fenced[0].strip()),) if len(fenced) == 1 else ()


def token(reply: str) -> str:
    """The workflow token a reply begins with; empty where it has none."""
    found = _WORKFLOW.match(reply)
    return found[1] if found else ""
