"""The mutator in every configuration of an ablation: each format and each mechanism, in real rollouts."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from uchide import llm
from uchide.actions import FORMATS, Call
from uchide.errors import ModelError
from uchide.llm.mutator.playbook import Step, next_step, parts_of, playbook
from uchide.protocols import ChatRequest, Message, Sampling

ALL = ("run_tests", "line_edit")


def header(**more: Any) -> str:
    fields = {"phase": "CODE_FIX", "visit": 1, "share": "/share", "root": "/testbed", **more}
    return f"UCHIDE-HEADER {json.dumps(fields)}\nYou repair software."


async def said(*messages: Message) -> Any:
    return await llm.create({"name": "mutator"}).complete(ChatRequest(list(messages), Sampling(seed=1001)))


def test_a_play_of_others_skips_what_may_fail_and_gives_up_where_the_rest_needs_it() -> None:
    parts = parts_of(playbook()["FREE"], 1)
    good = {part: [f"<returncode>{step.expect[0]}</returncode>" for step in parts[part].steps] for part in range(4)}
    skipped = [*good[0], "<returncode>1</returncode>"]
    step = next_step(parts, ALL, skipped)
    assert step == parts[2].steps[0]
    why = next_step(parts, ALL, [*skipped, "<returncode>9</returncode>"])
    assert isinstance(why, str)
    assert "return code 9" in why
    without_tools = next_step(parts, (), [*good[0], *good[1], *good[2]])
    assert without_tools == parts[4].steps[0]


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "native"])
@pytest.mark.parametrize("tools", [ALL, ()], ids=["tools", "none"])
@pytest.mark.parametrize("phase", sorted(playbook()))
async def test_every_command_can_be_spelt_in_every_format(phase: str, tools: tuple[str, ...], form: str) -> None:
    messages = [Message("system", header(phase=phase, tools=tools, action_format=form)), Message("user", "Issue")]
    parts, answers = parts_of(playbook()[phase], 1), []
    while isinstance(step := next_step(parts, tools, answers), Step):
        reply = await said(*messages)
        assert isinstance(FORMATS[form].read(reply.text.partition("FINAL_ANSWER:")[2], ()), Call), reply.text
        answers.append(f"<returncode>{step.expect[0]}</returncode>")
        messages += [Message("assistant", reply.text), Message("user", answers[-1])]
    assert (await said(*messages)).text.startswith("WORKFLOW: GIVEUP" if step else "WORKFLOW: COMPLETE")


async def test_a_missing_tool_is_said_before_anything_is_run() -> None:
    reply = await said(Message("system", header(phase="TEST_LOCALIZE", tools=[])), Message("user", "Issue"))
    assert reply.text.startswith("WORKFLOW: GIVEUP")
    assert "run_tests" in reply.text


@pytest.mark.parametrize("draft", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
async def test_as_formatter_it_copies_the_command_of_any_draft(draft: str, target: str) -> None:
    call = Call("bash", {"command": "cat <<'END' > x\n$y \"z\" {}\nEND"})
    text = f"WORKFLOW: W1\nTHOUGHT: now\nFINAL_ANSWER:\n{FORMATS[draft].write(call)}"
    system = Message("system", header(role="formatter", action_format=target))
    reply = await said(system, Message("user", text))
    found = FORMATS[target].read(reply.text, reply.tool_calls)
    assert found == (None if draft == "native" else call)
    assert draft != "native" or reply.text == "no action"


async def test_an_unknown_format_is_one_clear_error() -> None:
    with pytest.raises(ModelError, match="action format 'morse'"):
        await said(Message("system", header(action_format="morse")), Message("user", "Issue"))


EDITS = [
    ("replace", "a\r\nB\r\nB2\r\nc"),
    ("insert_before", "a\r\nB\r\nB2\r\nb\r\nc"),
    ("insert_after", "a\r\nb\r\nB\r\nB2\r\nc"),
    ("delete", "a\r\nc"),
]


@pytest.mark.parametrize(("op", "after"), EDITS)
def test_edits_without_line_edit_do_what_line_edit_does(tmp_path: Path, op: str, after: str) -> None:
    """The command as it is run, on a tree with Windows line ends and no final newline."""
    system = Message("system", header(tools=[], share=str(tmp_path), visit=2))
    command = FORMATS["tool_bash"].read(asyncio.run(said(system, Message("user", "Issue"))).text, ())
    assert isinstance(command, Call)
    file = tmp_path / "tree/x.py"
    file.parent.mkdir()
    file.write_bytes(b"a\r\nb\r\nc")
    subprocess.run("git init -q . && git add . && git -c user.name=x -c user.email=x@y.z commit -qm base",
                   shell=True, cwd=file.parent, check=True)  # fmt: skip
    edit = {"path": "x.py", "line": 2, "expect": "b", "new": "B\nB2\n", "op": op}
    (tmp_path / "edits.json").write_text(json.dumps({"survivors": [{"edits": []}, {"edits": [edit]}]}))
    done = subprocess.run(["bash", "-c", command.arguments["command"]], cwd=file.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert file.read_bytes().decode() == after
