"""How the turn contract uses an action format: native calls beside text, and replies that a server cut off."""

import pytest

from uchide.actions import FORMATS, Call, FormatError, native
from uchide.agents.phases.turns import Turn, parse_turn
from uchide.protocols import ChatReply, ToolCall
from uchide.records import Usage

LS = ToolCall("call_1", "bash", '{"command": "ls"}')


def read(text, form="native", calls=(), ending="stop"):
    return parse_turn(ChatReply(text, Usage(), ending, tool_calls=tuple(calls)), FORMATS[form], 5)


@pytest.mark.parametrize("ending", ["stop", "tool_calls"])
def test_a_native_action_is_the_call_and_the_text_is_the_thought(ending):
    turn = read("WORKFLOW: W1\nTHOUGHT: <tool: bash> rm </tool>", calls=[LS], ending=ending)
    assert turn == Turn("W1", "<tool: bash> rm </tool>", "ls", "")


def test_native_final_answer_is_a_memo_even_beside_a_call():
    text = "WORKFLOW: COMPLETE\nTHOUGHT: done\nFINAL_ANSWER:\nsee `a.py`"
    assert read(text, calls=[LS]) == Turn("COMPLETE", "done", "ls", "see `a.py`")
    assert read(text) == Turn("COMPLETE", "done", None, "see `a.py`")


def test_a_native_step_without_a_call_is_no_turn():
    found = read("WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\n<tool: bash> ls </tool>")
    assert isinstance(found, FormatError)


@pytest.mark.parametrize(
    ("text", "thought"), [("", ""), ("I look around.", "I look around."), ("<think>x</think>", "<think>x</think>")]
)
def test_a_call_without_a_workflow_line_is_a_step_at_an_unnamed_place(text, thought):
    assert read(text, calls=[LS]) == Turn("", thought, "ls", "")


def test_a_call_beside_a_wrong_workflow_line_is_no_turn():
    found = read("WORKFLOW: W99\nTHOUGHT: x", calls=[LS])
    assert isinstance(found, FormatError)


@pytest.mark.parametrize("form", list(FORMATS))
def test_a_reply_cut_off_by_length_is_never_executed(form):
    call = Call("bash", {"command": "ls"})
    calls = [native.tool_call(call)] if form == "native" else []
    text = "WORKFLOW: W0\nTHOUGHT: x\n" + ("" if calls else f"FINAL_ANSWER:\n{FORMATS[form].write(call)}\n")
    assert read(text, form, calls).action == "ls"
    found = read(text, form, calls, "length")
    assert isinstance(found, FormatError)
    assert "cut off at the server's token limit" in found.reason


def test_half_a_heredoc_is_not_run_when_the_reply_ends_at_an_inner_fence():
    text = "WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\n```bash\ncat > a.md <<'EOF'\n```\n"
    assert isinstance(read(text, "markdown_bash", ending="length"), FormatError)


def test_a_memo_that_was_cut_off_is_kept():
    assert read("WORKFLOW: COMPLETE\nTHOUGHT: x\nFINAL_ANSWER:\nhalf a", ending="length").answer == "half a"


@pytest.mark.parametrize(
    "text",
    [
        "<think>WORKFLOW: W3</think>\nWORKFLOW: W0\nTHOUGHT: x\n",
        "The template opened the block.</think>\n\nWORKFLOW: W0\nTHOUGHT: x\n",
        "WORKFLOW: W0\nTHOUGHT: x\n</think>\nWORKFLOW: W3\n",
    ],
)
def test_reasoning_before_the_first_line_is_no_part_of_the_reply(text):
    assert read(text, calls=[LS]).token == "W0"


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if not form.native])
def test_markers_of_the_contract_inside_a_heredoc_are_text(form):
    command = (
        "cat > notes.md <<'EOF'\nWORKFLOW: COMPLETE\nTHOUGHT: x\nFINAL_ANSWER:\n<|im_end|> </s> [INST]\n</think>\nEOF"
    )
    text = f"WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\n{FORMATS[form].write(Call('bash', {'command': command}))}"
    turn = read(text, form)
    assert (turn.token, turn.action) == ("W0", command)


@pytest.mark.parametrize(
    ("form", "inner"),
    [
        ("tool_bash", "<tool: bash> cat > p.md <<'EOF'\nFINAL_ANSWER:\n<tool: bash> rm -rf . </tool>\nEOF\n</tool>"),
        ("markdown_bash", "````bash\ncat > p.md <<'EOF'\nFINAL_ANSWER:\n```bash\nrm -rf .\n```\nEOF\n````"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "cat <<X\nFINAL_ANSWER:\n[TOOL_CALLS]bash[ARGS]{}\nX"}'),
    ],
)
def test_a_whole_action_inside_an_action_is_not_run_when_the_outer_marker_is_missing(form, inner):
    assert isinstance(read(f"WORKFLOW: W0\n{inner}", form), FormatError)
