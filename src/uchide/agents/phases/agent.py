"""The phases agent as an `Agent`."""

from collections.abc import Mapping
from typing import Any

from uchide.agents.phases.own import own_skills, own_spec
from uchide.agents.phases.prompts import Prompts
from uchide.agents.phases.run import PhasesRun
from uchide.agents.phases.skills import with_own
from uchide.agents.phases.spec import PhasesSpec, load_spec, parse_spec
from uchide.agents.rollout import Plan, rollout
from uchide.agents.session import Session
from uchide.protocols import Agent, ChatModel, Limits, SandboxProvider, Task
from uchide.records import Candidate, ExitStatus


class PhasesAgent:
    """Walks the phases of a spec. Keeps no state between rollouts, so any number may run at once."""

    name = "phases"

    def __init__(
        self, spec: PhasesSpec, prompts: Mapping[str, str] | None = None, skills: Mapping[str, str] | None = None
    ) -> None:
        self.spec = spec.active()
        self._prompts = Prompts(self.spec, prompts, with_own(skills or {}, spec.phases))

    async def rollout(self, task: Task, model: ChatModel, sandboxes: SandboxProvider) -> Candidate:
        """One attempt; see `uchide.protocols.Agent`."""
        plan = Plan(
            agent=self.name,
            tools=self.spec.tools,
            limits=Limits(**self.spec.sandbox.model_dump()),
            sampling=self.spec.sampling.with_seed(task.seed),
            rollout=self.spec.limits,
            action_format=self.spec.action_format,
            edges=tuple((source, kind, target) for source, kind, target in self.spec.edges()),
            drive=self._drive,
        )
        return await rollout(task, model, sandboxes, plan)

    async def _drive(self, session: Session) -> ExitStatus:
        return await PhasesRun(self.spec, self._prompts, session).run()


def create(options: Mapping[str, Any]) -> Agent:
    """A phases agent from `options`: `spec` is a YAML file of your own (see `uchide.agents.phases.own`; the built-in
    prompts fill in for those it lacks) and `skills` a folder of them; every other key overrides the same key of that
    file. Raises ConfigError."""
    overrides = dict(options)
    spec, skills = overrides.pop("spec", None), overrides.pop("skills", None)
    extra = own_skills(skills).files if skills else {}
    if spec is None:
        return PhasesAgent(load_spec(overrides=overrides), skills=extra)
    own = own_spec(spec)
    return PhasesAgent(parse_spec(own.text, own.file, overrides), own.prompts, {**own.skills, **extra})
