"""Rollouts in the real sandbox, with agents that behave and agents that do not."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.local import commit_all
from support.rollouts import FIX, HAPPY, make_task
from support.scripted import Scripted, turn

from uchide import agents
from uchide.records import Candidate
from uchide.sandboxes import provider

pytestmark = pytest.mark.sandbox


async def play(folder: Path, answers: tuple[str, ...], steps: int = 100) -> tuple[Candidate, Scripted]:
    task = make_task(folder)
    commit_all(task.tree)
    # The host's own system Python will do.
    task = replace(task, environment=None, python_home=None)
    model = Scripted(answers)
    agent = agents.create({"limits": {"steps": steps}, "sandbox": {"disk_mb": 64}})
    return await agent.rollout(task, model, provider("bwrap")), model


async def test_a_rollout_in_the_sandbox(tmp_path):
    candidate, _ = await play(tmp_path, HAPPY)
    assert candidate.exit_status == "completed"
    assert "+    return a + b" in candidate.patch
    assert candidate.suite.fail_to_pass == ("tests/test_uchide_r01_s1001.py::test_add",)
    assert candidate.cpu_seconds > 0
    assert candidate.warnings == ()


async def test_the_same_script_gives_the_same_candidate(tmp_path):
    first, _ = await play(tmp_path / "a", HAPPY)
    second, _ = await play(tmp_path / "b", HAPPY)
    assert (first.patch_sha256, first.suite_sha256) == (second.patch_sha256, second.suite_sha256)


@pytest.mark.parametrize(
    "command",
    [
        "head -c 999999999 /dev/zero > /tmp/full",
        "head -c 999999999 /dev/zero > /share/full; mkdir /share/ISSUE_REPRODUCE.md",
        "head -c 999999999 /dev/zero > full",
        "chmod 000 /testbed",
        "chmod 000 /share",
        "chmod 000 /tmp",
        "mkfifo /share/reproduce.md /share/report.md tests/test_fifo.py",
        "git config core.fsmonitor 'kill -9 -1'; git config core.bare true; touch .git/index.lock",
        "kill -9 -1",
    ],
)
async def test_what_an_agent_breaks_is_never_an_infrastructure_failure(tmp_path, command):
    answers = (turn("W0", FIX), turn("W0", command), turn("COMPLETE"), turn("GIVEUP", memo="a memo"), turn("W0", "ls"))
    candidate, model = await play(tmp_path, answers, steps=len(answers))
    assert candidate.exit_status == "step_limit"
    assert "+    return a + b" in candidate.patch
    assert candidate.phases == ("ISSUE_REPRODUCE", "CODE_LOCALIZE")
    assert "a memo" in model.requests[-1][1].content
