"""The mutator in real rollouts: in other formats, with a formatter, and with mechanisms switched off."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.local import LocalProvider
from support.rollouts import make_task

from uchide import agents, llm
from uchide.agents import trajectory
from uchide.agents.phases.formatter import ROLE
from uchide.llm.mutator.playbook import playbook
from uchide.records import Candidate

ALL = ("run_tests", "line_edit")


async def rollout(tmp_path: Path, **options: Any) -> tuple[Candidate, list[Any]]:
    """A rollout of the default model on a repository with one wrong operator, and its records."""
    task = make_task(tmp_path)
    variables = {"UCHIDE_TOOLS": "/tools", "UCHIDE_SHARE": "/share"}
    environment = task.instance.environment.model_copy(update={"env": variables})
    task = replace(task, instance=task.instance.model_copy(update={"environment": environment}))
    model = llm.create({"name": "mutator", "mutants": 20})
    candidate = await agents.create({"name": "phases", **options}).rollout(task, model, LocalProvider())
    return candidate, list(trajectory.read(task.trajectory))


def commands(records: list[Any]) -> list[str]:
    return [record.action for record in records if record.kind == "turn" and record.action]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Candidate, list[Any]]:
    return asyncio.run(rollout(tmp_path_factory.mktemp("plain")))


@pytest.mark.parametrize(
    ("form", "formatter"),
    [
        ("native", True),
        pytest.param("toolcall", False, marks=pytest.mark.slow),
        pytest.param("native", False, marks=pytest.mark.slow),
    ],
)
async def test_every_format_brings_the_same_actions(
    plain: tuple[Candidate, list[Any]], tmp_path: Path, form: str, formatter: bool
) -> None:
    base, before = plain
    made, records = await rollout(tmp_path / form, action_format=form, mechanisms={"formatter": formatter})
    assert "a + b" in base.patch
    assert (made.exit_status, made.patch, made.suite) == (base.exit_status, base.patch, base.suite)
    assert commands(records) == commands(before)
    assert made.format_errors == 0
    calls = [record for record in records if record.kind == "call" and record.role == ROLE]
    assert len(calls) == (len(commands(before)) if formatter else 0)


@pytest.mark.parametrize(
    "off",
    [
        pytest.param(("phases",), marks=pytest.mark.slow),
        pytest.param(("tools",), marks=pytest.mark.slow),
        ("phases", "handover", "skills", "tools"),
    ],
    ids="-".join,
)
async def test_it_repairs_with_mechanisms_switched_off(tmp_path: Path, off: tuple[str, ...]) -> None:
    made, records = await rollout(tmp_path, mechanisms=dict.fromkeys(off, False))
    assert made.exit_status == "completed"
    assert "a + b" in made.patch
    assert made.suite.fail_to_pass
    assert bool(made.suite.pass_to_pass) is ("tools" not in off)
    assert set(made.phases) == ({"FREE"} if "phases" in off else set(playbook()) - {"FREE"})
    if "tools" in off:
        assert not [c for c in commands(records) if "run_tests.py" in c or "line_edit.py" in c]
