"""The blueprint agent as an `Agent`."""

from collections.abc import Mapping
from contextlib import closing, nullcontext
from typing import Any

from uchide.agents.blueprint.engine import Engine
from uchide.agents.blueprint.prompts import Prompts
from uchide.agents.blueprint.spec import BlueprintSpec, load_spec
from uchide.agents.checkpoint import Checkpoint
from uchide.agents.rollout import Plan, rollout
from uchide.agents.session import Session
from uchide.errors import ConfigError
from uchide.protocols import Agent, ChatModel, Limits, SandboxProvider, Task
from uchide.records import Candidate, ExitStatus, digest

STATE_VERSION = 1


class BlueprintAgent:
    """Walks the nodes of a spec. Keeps no state between rollouts, so any number may run at once."""

    name = "blueprint"

    def __init__(self, spec: BlueprintSpec) -> None:
        self.spec = spec
        self._prompts = Prompts(spec)

    async def rollout(self, task: Task, model: ChatModel, sandboxes: SandboxProvider) -> Candidate:
        """One attempt; see `uchide.protocols.Agent`. With `task.scratch` it goes on from the last finished node of an
        earlier, killed one. Raises ConfigError when the dataset's list is asked for and not given."""
        if self.spec.dataset_p2p and task.regression is None:
            raise ConfigError("agent.dataset_p2p: this task comes without the dataset's PASS_TO_PASS list")
        plan = Plan(
            agent=self.name,
            tools=self.spec.scripts,
            limits=Limits(**self.spec.sandbox.model_dump()),
            sampling=self.spec.sampling.with_seed(task.seed),
            rollout=self.spec.limits,
            action_format=self.spec.action_format,
            edges=self.spec.edges(),
            drive=self._drive,
        )
        candidate = await rollout(task, model, sandboxes, plan)
        return candidate.model_copy(update={"leaderboard_valid": not self.spec.dataset_p2p})

    async def _drive(self, session: Session) -> ExitStatus:
        scratch = session.task.scratch
        opened = closing(Checkpoint(scratch, self._identity(session))) if scratch is not None else nullcontext()
        with opened as checkpoint:
            return await Engine(self.spec, self._prompts, session, checkpoint).run()

    def _identity(self, session: Session) -> str:
        """Digest of everything that decides what a rollout does, as far as the agent can tell."""
        task = session.task
        return digest(
            {
                "state": STATE_VERSION,
                "candidate": task.candidate_id,
                "seed": task.seed,
                "instance": task.instance.model_dump(mode="json"),
                "base_tree": session.base_tree,
                "regression": task.regression if self.spec.dataset_p2p else None,
                "model": session.model.name,
                "spec": self.spec.model_dump(mode="json"),
            }
        )


def create(options: Mapping[str, Any]) -> Agent:
    """A blueprint agent; `options` override the keys of blueprint.yaml. Raises ConfigError."""
    return BlueprintAgent(load_spec(options))
