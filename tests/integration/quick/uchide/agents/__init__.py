"""Quick engine: an agent whose patch is decided by seed and instance. Environment variables make it slow or failing."""

import asyncio
import os
from typing import Any

from uchide.errors import ConfigError, ModelError, SandboxError
from uchide.records import Candidate, FileContent, Suite, Usage, digest


class QuickAgent:
    name = "quick"

    async def rollout(self, task: Any, model: Any, sandboxes: Any) -> Candidate:
        model.ask()
        await asyncio.sleep(float(os.environ.get("QUICK_SECONDS", "0")))
        if task.instance.instance_id in os.environ.get("QUICK_INFRA", "").split():
            raise SandboxError("the sandbox fell over")
        if task.instance.instance_id in os.environ.get("QUICK_EVIL", "").split():
            raise ModelError("\x1b]0;owned\x07 [red]not markup[/red] \u202e")
        patch = f"+{task.instance.instance_id} {task.seed % 3}\n"
        suite = Suite(
            instance_id=task.instance.instance_id,
            files=(FileContent(path="t.py", data=str(task.seed)),),
            fail_to_pass=("t.py::a",),
            pass_to_pass=("t.py::b",),
        )
        return Candidate(
            candidate_id=task.candidate_id,
            arm=task.arm,
            run=task.run,
            seed=task.seed,
            instance_id=task.instance.instance_id,
            exit_status="completed",
            patch=patch,
            patch_sha256=digest(patch),
            suite=suite,
            suite_sha256=suite.sha256,
            turns=3,
            usage=Usage(),
            trajectory=f"trajectories/{task.trajectory.name}",
            trajectory_sha256="",
            cpu_seconds=float(os.getpid()),
        )


def create(config: dict[str, Any]) -> QuickAgent:
    if set(config) - {"name", "flag"}:
        raise ConfigError(f"agent: unknown option {sorted(set(config) - {'name', 'flag'})[0]!r}")
    return QuickAgent()


def reads_test_lists(config: dict[str, Any]) -> bool:
    return False
