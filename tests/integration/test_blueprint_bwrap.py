"""Blueprint rollouts in the real sandbox: killed ones go on, and what an agent breaks is its own failure."""

import asyncio
from dataclasses import replace

import pytest
from support.blueprint import DETOUR, DETOUR_NODES, Player, bash, make_unittest_task, play
from support.local import commit_all

from uchide.datasets.copied import copied_environment
from uchide.datasets.environments import locate
from uchide.errors import ModelError
from uchide.records.base import canonical
from uchide.sandboxes import provider

pytestmark = pytest.mark.sandbox
OPTIONS = {"sandbox": {"disk_mb": 64}}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCHIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        key, _ = asyncio.run(copied_environment((), lambda _: None))
        return locate(key)


def the_task(folder, environment, **more):
    task = make_unittest_task(folder, **more)
    commit_all(task.tree)
    return replace(task, environment=environment.root, python_home=environment.python_home)


class Dying(Player):
    """Its server dies at every first request of a node, once."""

    def __init__(self, moves):
        super().__init__(moves)
        self.met = set()

    async def complete(self, request):
        place = (request.place, request.role, request.messages[1].content)
        if place not in self.met:
            self.met.add(place)
            raise ModelError("gone")
        return await super().complete(request)


async def test_it_comes_to_the_same_end_in_a_fresh_sandbox_after_every_failure(tmp_path, environment):
    whole, _, _ = await play(tmp_path / "a", DETOUR, OPTIONS, provider("bwrap"), the_task(tmp_path / "a", environment))
    assert whole.exit_status == "completed"
    assert whole.phases == DETOUR_NODES
    assert whole.warnings == ()
    task, model = the_task(tmp_path / "b", environment, scratch=tmp_path / "state.sqlite"), Dying(DETOUR)
    for _ in range(len(DETOUR) + 1):  # the discrepancies are a call of their own
        with pytest.raises(ModelError, match="gone"):
            await play(tmp_path / "b", {}, OPTIONS, provider("bwrap"), task, model)
    candidate, _, _ = await play(tmp_path / "b", {}, OPTIONS, provider("bwrap"), task, model)
    assert canonical(candidate) == canonical(whole)


@pytest.mark.parametrize(
    "command",
    [
        "head -c 999999999 /dev/zero > /tmp/full",
        "head -c 999999999 /dev/zero > /share/full; mkdir /share/report.md",
        "head -c 999999999 /dev/zero > full",
        "chmod 000 /testbed",
        "chmod 000 /share",
        "chmod 000 /tmp",
        "mkfifo /share/report.md tests/test_fifo.py",
        "rm -rf .git",
        "kill -9 -1",
    ],
)
async def test_what_an_agent_breaks_is_never_an_infrastructure_failure(tmp_path, environment, command):
    moves = {name: (bash(command), *rest, *["Done."] * 9) for name, rest in DETOUR.items()}
    turns = {name: {"turns": 8} for name in ("REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT")}
    task = the_task(tmp_path, environment, scratch=tmp_path / "state.sqlite")
    candidate, _, _ = await play(tmp_path, moves, {**OPTIONS, "attempts": 1, "nodes": turns}, provider("bwrap"), task)
    assert candidate.exit_status == "completed"
