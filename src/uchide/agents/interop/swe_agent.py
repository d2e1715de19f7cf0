"""SWE-agent's `.traj`: `trajectory` (one object per step), `history` and `info`."""

from collections.abc import Mapping

from uchide.agents.interop import fields
from uchide.agents.interop.fields import Object, items, obj, text
from uchide.agents.interop.model import Act, Imported, Step
from uchide.records import Usage

COMMANDS = frozenset(
    {
        *("str_replace_editor", "edit", "open", "create", "insert", "goto", "scroll_up", "scroll_down", "view_image"),
        *("search_dir", "search_file", "find_file", "filemap", "think", "submit", "exit_forfeit"),
    }
)
"""Tools of SWE-agent's bundles that are called like shell commands; anything else is the shell itself."""


def fits(data: object) -> bool:
    top = obj(data)
    steps = top.get("trajectory")
    return isinstance(steps, list) and all(isinstance(step, Mapping) and "observation" in step for step in steps)


def read(data: object) -> Imported:
    """One file as our model."""
    top = obj(data)
    info = obj(top.get("info"))
    stats, submission = obj(info.get("model_stats")), info.get("submission")
    return Imported(
        source="swe-agent",
        instance_id=text(top.get("instance_id")) or text(info.get("instance_id")),
        agent=f"SWE-agent {text(info.get('swe_agent_version'))}".strip(),
        opening=tuple(_opening(top)),
        steps=tuple(_step(obj(step)) for step in items(top.get("trajectory"))),
        exit_status=text(info.get("exit_status")),
        patch=submission if isinstance(submission, str) else None,
        declared=_declared(stats) if stats else None,
    )


def _opening(top: Object) -> list[tuple[str, str]]:
    found = []
    for message in map(obj, items(top.get("history"))):
        if message.get("role") == "assistant":
            break
        if not message.get("is_demo"):
            found.append((text(message.get("role")), text(message.get("content"))))
    return found


def _step(step: Object) -> Step:
    action = text(step.get("action")).strip()
    first = action.split(maxsplit=1)[0] if action else ""
    exit_ = obj(step.get("extra_info")).get("exit_code")
    return Step(
        thought=(text(step.get("thought")) or text(step.get("response"))).strip(),
        acts=(Act(first if first in COMMANDS else "bash", action),) if action else (),
        observation=text(step.get("observation")),
        returncode="" if exit_ is None else str(exit_),
    )


def _declared(stats: Object) -> Usage:
    return Usage(
        calls=fields.number(stats.get("api_calls")),
        prompt_tokens=fields.number(stats.get("tokens_sent")),
        completion_tokens=fields.number(stats.get("tokens_received")),
        cost=fields.money(stats.get("instance_cost")),
    )
