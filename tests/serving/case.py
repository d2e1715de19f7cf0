"""The `mini` instance of these tests, rollouts on it, and their verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uchide import agents
from uchide.datasets import environments, prepare_hidden, prepare_public
from uchide.datasets.environments import BuiltEnvironment
from uchide.datasets.mini import MiniDataset
from uchide.grading import create as grader
from uchide.protocols import ChatModel, GradeRequest, SandboxProvider, Task
from uchide.records import Candidate, HiddenInstance, PublicInstance, Verdict

HERE = Path(__file__).parent
MINI = MiniDataset(HERE.parents[1] / "datasets" / "mini")


@dataclass(frozen=True)
class Case:
    """The instance, prepared in `folder`."""

    folder: Path
    public: PublicInstance
    hidden: HiddenInstance
    tree: Path
    environment: BuiltEnvironment

    async def rollout(
        self, agent: Mapping[str, Any], model: ChatModel, sandboxes: SandboxProvider, name: str
    ) -> Candidate:
        """One attempt; its trajectory is `<folder>/<name>.jsonl.zst`. Run and seed are always the same."""
        built = self.environment
        file = self.folder / "trajectories" / f"{name}.jsonl.zst"
        task = Task("main", "r01_s1001", 1001, self.public, self.tree, built.root, built.python_home, file)
        return await agents.create(agent).rollout(task, model, sandboxes)

    async def grade(self, candidate: Candidate, sandboxes: SandboxProvider) -> Verdict:
        built = self.environment
        request = GradeRequest(self.public, self.hidden, candidate.patch, self.tree, built.root, built.python_home)
        return await grader("native", sandboxes, self.folder).grade(request)


async def prepare(instance_id: str, folder: Path) -> Case:
    """Pack the tree into `folder`; the environment lies in the current cache."""
    public = await prepare_public(MINI, instance_id, folder / "trees", None, lambda _: None)
    tree = folder / "trees" / f"{public.tree}.tar.zst"
    hidden = await prepare_hidden(MINI, instance_id, public, tree, None, lambda _: None)
    return Case(folder, public, hidden, tree, environments.locate(public.environment.key))
