"""ATIF, the Agent Trajectory Interchange Format of the Harbor project, versions 1.0 to 1.8: read into our model."""

from dataclasses import replace

from uchide.agents.interop import fields
from uchide.agents.interop.fields import Object, items, obj, text
from uchide.agents.interop.model import Imported, Step
from uchide.records import Usage


def fits(data: object) -> bool:
    return text(obj(data).get("schema_version")).startswith("ATIF-")


def read(data: object) -> Imported:
    """A document as our model; the steps of embedded subagents follow those of the agent that called them."""
    top = obj(data)
    agent, extra = obj(top.get("agent")), obj(top.get("extra"))
    opening, steps = _steps(top)
    patch = extra.get("patch")
    return Imported(
        source="atif",
        instance_id=text(extra.get("instance_id")) or text(top.get("session_id")),
        model=text(agent.get("model_name")),
        agent=f"{text(agent.get('name'))} {text(agent.get('version'))}".strip(),
        opening=tuple(opening),
        steps=tuple(steps),
        exit_status=text(extra.get("exit_status")),
        patch=patch if isinstance(patch, str) else None,
        patch_sha256=text(extra.get("patch_sha256")),
        declared=_declared(obj(top.get("final_metrics")), len(steps)),
    )


def _steps(top: Object, phase: str = "") -> tuple[list[tuple[str, str]], list[Step]]:
    opening: list[tuple[str, str]] = []
    found: list[Step] = []
    in_opening = True
    for step in map(obj, items(top.get("steps"))):
        own = obj(obj(step.get("extra")).get("uchide"))
        if step.get("is_copied_context") or own.get("call"):
            continue
        if step.get("source") == "agent":
            found.append(_step(step, own, phase))
            in_opening = False
            continue
        in_opening = in_opening or (step.get("source") == "system" and not step.get("observation"))
        if not found:
            opening.append((text(step.get("source")), text(step.get("message"))))
        elif not in_opening:
            said = "\n".join(filter(None, (found[-1].observation, text(step.get("message")), _observation(step))))
            found[-1] = replace(found[-1], observation=said)
    for sub in map(obj, items(top.get("subagent_trajectories"))):
        name = text(sub.get("trajectory_id")) or text(obj(sub.get("agent")).get("name"))
        found += _steps(sub, name)[1]
    return opening, found


def _step(step: Object, own: Object, phase: str) -> Step:
    message, metrics = text(step.get("message")), obj(step.get("metrics"))
    calls = [obj(item) for item in items(step.get("tool_calls"))]
    thought, written = fields.written(message)
    cached = metrics.get("cached_tokens")
    usage = fields.usage(metrics, metrics.get("cost_usd"))
    return Step(
        thought="\n".join(filter(None, (text(step.get("reasoning_content")), thought if written else message))),
        acts=tuple(fields.call(text(item.get("function_name")), item.get("arguments")) for item in calls),
        observation=_observation(step),
        usage=usage and usage.model_copy(update={"cached_tokens": None if cached is None else fields.number(cached)}),
        phase=text(own.get("phase")) or phase,
        visit=fields.number(own.get("visit")) or 1,
        token=text(own.get("token")),
        returncode=text(own.get("returncode")),
        problem=text(own.get("problem")),
    )


def _observation(step: Object) -> str:
    results = items(obj(step.get("observation")).get("results"))
    return "\n".join(filter(None, (text(obj(item).get("content")) for item in results)))


def _declared(metrics: Object, steps: int) -> Usage | None:
    if not any(name in metrics for name in ("total_prompt_tokens", "total_completion_tokens", "total_cost_usd")):
        return None
    cached = metrics.get("total_cached_tokens")
    return Usage(
        calls=fields.number(obj(metrics.get("extra")).get("calls")) or steps,
        prompt_tokens=fields.number(metrics.get("total_prompt_tokens")),
        completion_tokens=fields.number(metrics.get("total_completion_tokens")),
        cached_tokens=None if cached is None else fields.number(cached),
        cost=fields.money(metrics.get("total_cost_usd")),
    )
