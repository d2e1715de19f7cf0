"""Our trajectories as mini-swe-agent's and as ATIF: by their rules, and nothing lost on the way back."""

import json
from itertools import pairwise

import pytest
from support import blueprint
from support.rollouts import FIX, HAPPY, make_task, play
from support.scripted import Scripted, turn

from uchide import agents
from uchide.actions import FORMATS
from uchide.agents.interop import atif_export, load, mini_export, own
from uchide.agents.trajectory import TrajectoryWriter, read
from uchide.errors import StoreError
from uchide.protocols import ChatReply, ToolCall
from uchide.records import Usage
from uchide.store.rows import parse_line

EXPORTS = {"mini": mini_export, "atif": atif_export}
USAGE = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cached_tokens=60, cost=0.125)


class Priced(Scripted):
    """A model with two roles and a price."""

    async def complete(self, request):
        if request.role == "formatter":
            text = FORMATS["tool_bash"].write(FORMATS["tool_bash"].read(request.messages[1].content, ()))
            return ChatReply(text, USAGE)
        return ChatReply((await super().complete(request)).text, USAGE)


def native(number, command, token):
    call = ToolCall(f"c{number}", "bash", json.dumps({"command": command}))
    return ChatReply(f"WORKFLOW: {token}\nTHOUGHT: I see.", USAGE, "tool_calls", tool_calls=(call,))


async def rollout(folder, which):
    """Trajectory files that need every part of the formats."""
    folder.mkdir()
    if which == "blueprint":
        moves = {**blueprint.HAPPY, "REPRODUCE_ISSUE.1": (blueprint.WRITE_UNITTESTS, "Two tests.")}
        task = blueprint.make_unittest_task(folder)
        await blueprint.play(folder, moves, {"limits": {"steps": 7}}, task=task)
        return task.trajectory
    answers, options = {
        "phases": ((turn("COMPLETE"), "nonsense", *HAPPY), {}),
        "formatter": (HAPPY[:4], {"mechanisms": {"formatter": True}, "limits": {"steps": 4}}),
        "native": (
            [native(1, "ls", "W0"), "nonsense", native(2, FIX, "COMPLETE")],
            {"action_format": "native", "limits": {"steps": 3}},
        ),
        "compaction": (
            [turn("W0", "seq 2000"), turn("W1", "true"), "a memo", turn("W2", "ls"), turn("HANDOVER", memo="m")],
            {"limits": {"steps": 4}},
        ),
    }[which]
    task = make_task(folder)
    model = Priced(answers, tokens=5000 if which == "compaction" else None)
    await agents.create(options).rollout(task, model, blueprint.LocalProvider())
    return task.trajectory


@pytest.fixture(scope="module", params=["phases", "formatter", "native", "compaction", "blueprint"])
def path(request, tmp_path_factory):
    import asyncio

    return asyncio.run(rollout(tmp_path_factory.mktemp("export") / request.param, request.param))


@pytest.mark.parametrize("form", EXPORTS)
def test_what_is_exported_is_imported_again(path, form, tmp_path):
    out = tmp_path / "out.traj.json"
    out.write_text(EXPORTS[form].text(own.load(path)))
    ours, back = load(path), load(out)
    for name in ("instance_id", "model", "exit_status", "tools"):
        assert getattr(back, name) == getattr(ours, name), name
    assert [(step.phase, step.visit, step.action, step.observation, step.returncode) for step in back.steps] == [
        (step.phase, step.visit, step.action, step.observation, step.returncode) for step in ours.steps
    ]
    assert [bool(step.problem) for step in back.steps if not step.acts] == [
        bool(step.problem) for step in ours.steps if not step.acts
    ] or form == "mini"
    for name in ("calls", "prompt_tokens", "completion_tokens", "cost"):
        assert getattr(back.usage, name) == getattr(ours.usage, name), name


def test_mini_swe_agent_finds_what_it_looks_for(path):
    """What its inspector and its own tools read: roles, contents, calls and answers that fit, an exit at the end."""
    document = json.loads(mini_export.text(own.load(path)))
    assert document["trajectory_format"] == "mini-swe-agent-1.1"
    assert set(document["info"]) >= {"exit_status", "submission", "model_stats", "config", "mini_version"}
    messages = document["messages"]
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    assert (messages[-1]["role"], messages[-1]["content"]) == ("exit", document["info"]["exit_status"])
    assert all(isinstance(message["content"], str) for message in messages)
    for message, following in pairwise(messages):
        calls = message.get("tool_calls", [])
        if calls and following["role"] != "exit" and "copied" not in message["extra"]["uchide"]:
            assert following.get("tool_call_id", calls[0]["id"]) == calls[0]["id"]
        if message["role"] == "assistant" and message["extra"].get("actions"):
            assert isinstance(message["extra"]["actions"][0]["command"], str)


def test_atif_by_its_rules(path):
    """The rules of RFC 0001 that a validator checks; the models of the harbor package accepted the same files."""
    document = json.loads(atif_export.text(own.load(path)))
    assert document["schema_version"] == "ATIF-v1.7"
    assert {"name", "version", "model_name"} <= set(document["agent"])
    steps = document["steps"]
    assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
    known = {"step_id", "source", "message", "tool_calls", "observation", "metrics", "llm_call_count", "extra"}
    for step in steps:
        assert set(step) <= known | {"is_copied_context"}
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not {"tool_calls", "metrics"} & set(step)
        ids = {call["tool_call_id"] for call in step.get("tool_calls", [])}
        for result in step.get("observation", {}).get("results", []):
            assert result.get("source_call_id") in ids or "source_call_id" not in result
        for call in step.get("tool_calls", []):
            assert isinstance(call["arguments"], dict)
    final = document["final_metrics"]
    assert final["total_steps"] == len(steps)
    assert final["total_prompt_tokens"] == sum(step.get("metrics", {}).get("prompt_tokens", 0) for step in steps)


def test_the_patch_comes_from_the_row_of_the_artifact(tmp_path):
    import asyncio

    candidate, _, _ = asyncio.run(play(tmp_path, HAPPY))
    path = next(tmp_path.glob("trajectories/*"))
    assert own.load(path).patch is None
    row = {"id": candidate.instance_id, "row": candidate.model_dump(mode="json")}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert parse_line(tmp_path / "rows.jsonl", 1, json.dumps(row).encode())[0] == candidate.instance_id
    rollout = own.load(path)
    assert rollout.patch == candidate.patch
    assert mini_export.export(rollout)["info"]["submission"] == candidate.patch
    assert atif_export.export(rollout)["extra"]["patch"] == candidate.patch


def test_a_cut_trajectory_is_exported_as_far_as_it_goes(path, tmp_path):
    """Kind: a half-written tail."""
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(path.read_bytes()[:-40])
    rollout = own.load(cut)
    assert rollout.end is None
    assert rollout.notes[-1].startswith("it has no end record")
    for export in EXPORTS.values():
        out = tmp_path / "out.json"
        out.write_text(export.text(rollout))
        back = load(out)
        assert (back.exit_status, len(back.steps)) == ("", len(rollout.turns))


def test_a_trajectory_without_a_record_is_refused(tmp_path):
    path = tmp_path / "t.jsonl.zst"
    with TrajectoryWriter(path):
        pass
    assert list(read(path)) == []
    with pytest.raises(StoreError, match="holds no whole record"):
        own.load(path)
