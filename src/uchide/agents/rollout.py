"""One rollout from task to candidate: opens the sandbox, lets an agent work, collects patch, suite and report."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from uchide.agents.limits import RolloutLimits
from uchide.agents.session import Session
from uchide.agents.trajectory import EndRecord, HeaderRecord, TrajectoryWriter
from uchide.errors import ConfigError, ModelError, PatchError, SandboxError
from uchide.patches import ArchivedSuite, CollectedPatch, archive, collect, snapshot
from uchide.patches.suite import SHARE, read_text
from uchide.protocols import ChatModel, Command, Limits, Sampling, Sandbox, SandboxProvider, SandboxSpec, Task
from uchide.records import Candidate, ExitStatus, Suite, Usage, digest
from uchide.redact import redactor, secret_values, unmistakable
from uchide.testing import instance_spec
from uchide.tools import TOOL_FILES, tool_paths

_REPORT_LIMIT = 200_000
_MAKE_USABLE = """tmp=${TMPDIR:-/tmp}; chmod u+rwx /testbed /share "$tmp"
rm -rf "$tmp"/* "$tmp"/.[!.]*; mkdir -p "$tmp"/home"""


@dataclass(frozen=True)
class Plan:
    """What an agent asks of a rollout; `drive` does the work and says how it ended."""

    agent: str
    tools: tuple[str, ...]
    limits: Limits
    sampling: Sampling
    rollout: RolloutLimits
    action_format: str
    edges: tuple[tuple[str, str, str], ...]
    drive: Callable[[Session], Awaitable[ExitStatus]]


async def rollout(task: Task, model: ChatModel, sandboxes: SandboxProvider, plan: Plan) -> Candidate:
    """Run `plan` on `task`. Every ending of the agent's own is a candidate; SandboxError and ModelError propagate.

    The trajectory file is complete when this returns, and readable up to its last record when it raises.
    """
    start = time.monotonic()
    tools = tuple(dict.fromkeys((*plan.tools, *model.tools)))
    with TrajectoryWriter(task.trajectory) as trajectory:
        session: Session | None = None
        try:
            async with sandboxes.open(_spec(task, tools, plan.limits)) as sandbox:
                await _lay_issue(sandbox, task)
                base_tree = await snapshot(sandbox)
                trajectory.write(_header(task, model, plan, base_tree, tools))
                session = Session(task, model, sandbox, trajectory, base_tree, plan.sampling, plan.rollout, tools)
                status = await plan.drive(session)
                patch, suite = await _collect(session)
                report = await read_text(sandbox, f"{SHARE}/report.md", limit=_REPORT_LIMIT) or ""
                cpu = await sandbox.cpu_seconds()
        except (SandboxError, ModelError) as error:
            if session is None:  # the sandbox never started
                trajectory.write(_header(task, model, plan, "", tools))
            trajectory.write(_end(session, "infra", error=error.message))
            raise
        trajectory.write(_end(session, status, patch, suite))
    return _candidate(session, status, patch, suite, report, cpu, time.monotonic() - start)


def _spec(task: Task, tools: tuple[str, ...], limits: Limits) -> SandboxSpec:
    if unknown := [tool for tool in tools if tool not in TOOL_FILES]:
        raise ConfigError(f"there is no sandbox tool {unknown[0]!r}", hint=f"Known tools: {', '.join(TOOL_FILES)}.")
    files = tuple(dict.fromkeys(path.name for tool in tools for path in tool_paths(tool)))
    return instance_spec(task.instance, task.tree, task.environment, task.python_home, tools=files, limits=limits)


async def _lay_issue(sandbox: Sandbox, task: Task) -> None:
    issue = task.instance.issue.model_dump()
    record = {"schema": issue.pop("schema_version"), **issue}
    await sandbox.write(f"{SHARE}/issue.json", json.dumps(record, indent=1, ensure_ascii=True).encode() + b"\n")


async def _collect(session: Session) -> tuple[CollectedPatch, ArchivedSuite]:
    """Patch and suite. Where the agent filled the disk or locked the folders, they are made usable again first; a tree
    that git can no longer read (`.git` removed) gives empty ones and a warning."""
    instance, sandbox = session.task.instance, session.sandbox
    try:
        patch = await collect(sandbox, session.base_tree)
    except PatchError as first:
        session.warnings.append("temporary files of the agent were removed to collect its patch")
        await sandbox.run(Command(("/bin/sh", "-c", _MAKE_USABLE), cwd="/"))
        try:
            patch = await collect(sandbox, session.base_tree)
        except PatchError:
            session.warnings.append(f"nothing could be collected: {first.message}")
            return CollectedPatch("", ()), ArchivedSuite(Suite(instance_id=instance.instance_id))
    suite = await archive(sandbox, patch.tests, instance.instance_id, instance.environment.runner.kind)
    session.warnings += (*patch.warnings, *suite.warnings)
    return _without_secrets(session, patch, suite)


def _without_secrets(
    session: Session, patch: CollectedPatch, suite: ArchivedSuite
) -> tuple[CollectedPatch, ArchivedSuite]:
    """A model may write a key it was told into a file. Done before anything is hashed, so that all links hold."""
    redact = redactor(unmistakable(secret_values()))
    clean = replace(patch, patch=redact(patch.patch))
    tests = replace(suite, suite=Suite.model_validate(redact(suite.suite.model_dump())))
    if clean != patch or tests != suite:
        session.warnings.append("the value of a secret environment variable was taken out of the patch or the suite")
    return clean, tests


def _header(task: Task, model: ChatModel, plan: Plan, base_tree: str, tools: tuple[str, ...]) -> HeaderRecord:
    return HeaderRecord(
        candidate_id=task.candidate_id,
        arm=task.arm,
        run=task.run,
        seed=task.seed,
        instance_id=task.instance.instance_id,
        agent=plan.agent,
        model=model.name,
        base_tree=base_tree,
        tools=tools,
        action_format=plan.action_format,
        edges=plan.edges,
    )


def _end(
    session: Session | None,
    status: ExitStatus,
    patch: CollectedPatch | None = None,
    suite: ArchivedSuite | None = None,
    error: str = "",
) -> EndRecord:
    if session is None:
        return EndRecord(exit_status=status, error=error, turns=0, format_errors=0, usage=Usage(), t=0.0)
    return EndRecord(
        exit_status=status,
        error=error,
        turns=session.turns,
        format_errors=session.format_errors,
        usage=session.usage,
        patch_sha256=digest(patch.patch) if patch else None,
        suite_sha256=suite.suite.sha256 if suite else None,
        warnings=tuple(session.warnings),
        t=round(session.elapsed(), 3),
    )


def _candidate(
    session: Session,
    status: ExitStatus,
    patch: CollectedPatch,
    suite: ArchivedSuite,
    report: str,
    cpu: float,
    wall: float,
) -> Candidate:
    task, redact = session.task, redactor()
    return Candidate(
        candidate_id=task.candidate_id,
        arm=task.arm,
        run=task.run,
        seed=task.seed,
        instance_id=task.instance.instance_id,
        exit_status=status,
        patch=patch.patch,
        patch_sha256=digest(patch.patch),
        suite=suite.suite,
        suite_sha256=suite.suite.sha256,
        report=redact(report),
        warnings=tuple(map(redact, session.warnings)),
        phases=tuple(session.phases),
        turns=session.turns,
        format_errors=session.format_errors,
        usage=session.usage,
        trajectory=f"{task.trajectory.parent.name}/{task.trajectory.name}",
        trajectory_sha256=digest(task.trajectory.read_bytes()),
        cpu_seconds=cpu,
        wall_seconds=wall,
    )
