"""The mutator at work in the real sandbox, recorded and replayed: same tools, same requests, same candidate."""

import asyncio
from dataclasses import replace

import pytest
from support.local import commit_all
from support.rollouts import CALC, make_task

from uchide import agents, llm
from uchide.datasets.copied import copied_environment
from uchide.datasets.environments import locate
from uchide.errors import ModelError
from uchide.records import Candidate
from uchide.sandboxes import provider

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCHIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        key, _ = asyncio.run(copied_environment(("pytest",), lambda _: None))
        return locate(key)


async def rollout(folder, environment, model: dict, source: str = CALC) -> Candidate:
    task = make_task(folder)
    (task.tree / "calc.py").write_text(source)
    commit_all(task.tree)
    task = replace(task, environment=environment.root, python_home=environment.python_home)
    chat = llm.create(model, root=folder.parent)
    try:
        return await agents.create({"sandbox": {"disk_mb": 64}}).rollout(task, chat, provider("bwrap"))
    finally:
        await chat.aclose()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, environment):
    """A folder with `tape`, and the candidate whose rollout was recorded there."""
    folder = tmp_path_factory.mktemp("recorded")
    made = asyncio.run(rollout(folder / "a", environment, {"name": "mutator", "mutants": 8, "record": "tape"}))
    return folder, made


async def test_a_recorded_rollout_of_the_mutator_is_replayed_without_it(recorded, environment):
    folder, made = recorded
    assert [path.name for path in (folder / "tape").iterdir()] == ["main.r01_s1001.toy__calc-1.jsonl"]
    again = await rollout(folder / "b", environment, {"name": "replay", "from": "tape"})
    assert "+    return a + b" in made.patch
    assert again.turns == made.turns
    assert (again.exit_status, again.patch, again.suite, again.usage, again.report) == (
        made.exit_status,
        made.patch,
        made.suite,
        made.usage,
        made.report,
    )


async def test_another_repository_diverges_at_the_observation_that_shows_it(recorded, environment):
    folder, _ = recorded
    with pytest.raises(ModelError, match=r"\(user\) differs: line \d+, recorded .*now ") as caught:
        await rollout(folder / "c", environment, {"name": "replay", "from": "tape"}, CALC.replace("-", "*"))
    assert "main.r01_s1001.toy__calc-1" in str(caught.value)
    assert not caught.value.retryable
