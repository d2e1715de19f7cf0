"""Properties of the five action formats: reading undoes writing, and no text crashes one or gives two actions."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from uchide.actions import FORMATS, Call, FormatError, native, shell_command
from uchide.agents.phases.turns import Turn, parse_turn
from uchide.errors import ActionError
from uchide.protocols import ChatReply, ToolCall
from uchide.records import Usage

BASH = json.dumps({"name": "bash", "arguments": {"command": "ls"}})
ALPHABET = st.sampled_from("`~ \n\r\t{}[]<>\"'\\$a/é🙂") | st.characters(codec="utf-8")
WORDS = [
    "```",
    "````",
    "\n",
    "bash",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "</tool>",
    "EOF",
    "{",
    " ",
]
COMMANDS = st.text(ALPHABET, max_size=60) | st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def command(form, raw, calls=()):
    found = FORMATS[form].read(raw, calls)
    return shell_command(found) if isinstance(found, Call) else found


@given(COMMANDS.filter(lambda text: text.strip() and "\0" not in text))
@example("~~~\n```\n`````")
@example("echo '</tool>'")
def test_what_is_written_is_read_back(text):
    expected = shell_command(Call("bash", {"command": text}))
    for name, form in FORMATS.items():
        try:
            written = form.write(Call("bash", {"command": text}))
        except ActionError:
            assert name == "tool_bash"
            assert "</tool>" in text.lower() or "<tool:" in text.lower()
            continue
        if form.native:
            assert command(name, "", [native.tool_call(Call("bash", {"command": text}))]) == expected
            continue
        assert command(name, written) == expected
        assert command(name, f"I look.\n{written}\n") == expected
        if "\r" not in text:
            assert command(name, written.replace("\n", "\r\n")) == expected


PIECES = [
    "<tool: bash>", "</tool>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "bash", "[ARGS]", "[", "]", ",", "{", "}",
    '{"command": "ls"}', BASH, '"name":', '"arguments":', '"', "```bash\n", "\n```\n", "````", "~~~",
    "\n", " ", "ls", "</s>", "WORKFLOW: W0\n", "WORKFLOW: COMPLETE\n", "FINAL_ANSWER:", "THOUGHT:", "<think>",
    "</think>", "\\u", "\r\n",
]  # fmt: skip
RAW = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=14).map("".join)
CALLS = st.lists(st.builds(ToolCall, st.just("1"), st.sampled_from(["bash", "", "x"]), RAW), max_size=2).map(tuple)


@given(RAW, CALLS)
@example("```bash\nls\n```", ())
@example(f"<tool_call>{BASH}</tool_call>", ())
@example("", (ToolCall("1", "bash", '{"command": "ls"}'),))
def test_no_output_crashes_or_is_read_as_more_than_one_action(raw, calls):
    for name, form in FORMATS.items():
        found = form.read(raw, calls)
        if isinstance(found, Call):
            twice = form.read(f"{raw}\n{raw}", (*calls, *calls))
            assert not isinstance(twice, Call), f"{name} ran one of two actions"
        else:
            assert found is None or found.reason


@given(RAW, CALLS, st.sampled_from(["stop", "length", "tool_calls"]))
def test_no_reply_crashes_the_turn_contract(raw, calls, ending):
    for form in FORMATS.values():
        turn = parse_turn(ChatReply(f"WORKFLOW: W0\n{raw}", Usage(), ending, tool_calls=calls), form, 5)
        assert isinstance(turn, Turn) and turn.action if not isinstance(turn, FormatError) else turn.reason


@pytest.mark.parametrize(
    "piece", [" ", "\n", "`", "~", "<", "<tool:", "</tool", "[", "{", "a", '{"a":', "```\n", "\r", "</think>", "\\u"]
)
def test_a_very_long_reply_takes_no_very_long_time(piece):
    raw = piece * (200_000 // len(piece)) + "\r."
    started = time.process_time()
    for form in FORMATS.values():
        for text in (raw, f"<tool_call>{raw}", f"[TOOL_CALLS]{raw}", f"```bash\n{raw}", f"<tool: bash>{raw}"):
            form.read(text, ())
        form.read("", (ToolCall("1", "bash", raw),))
        for text in (raw, f"<think>{raw}", f"WORKFLOW: W0\n{raw}", f"WORKFLOW: W0\nTHOUGHT:{raw}"):
            parse_turn(ChatReply(text, Usage()), form, 5)
    assert time.process_time() - started < 10
