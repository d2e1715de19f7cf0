"""The phase graph, its validation, the reading of replies, and the issue's rendering."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from uchide import agents, llm
from uchide.actions import FORMATS, FormatError
from uchide.agents.issue import fence, render_issue
from uchide.agents.overlay import overlay
from uchide.agents.phases.spec import BUILT_IN, load_spec
from uchide.agents.phases.turns import Turn, parse_turn
from uchide.errors import ConfigError
from uchide.protocols import ChatReply
from uchide.records import Issue, Usage

BASH = FORMATS["tool_bash"]


def test_the_built_in_graph_has_the_published_phases_and_edges():
    spec = load_spec()
    order = [
        ("ISSUE_REPRODUCE", "TEST_SYNTHESIZE", "CODE_LOCALIZE"),
        ("TEST_SYNTHESIZE", "CODE_LOCALIZE", "CODE_LOCALIZE"),
        ("CODE_LOCALIZE", "TEST_LOCALIZE", "ISSUE_REPRODUCE"),
        ("TEST_LOCALIZE", "CODE_FIX", "CODE_FIX"),
        ("CODE_FIX", "VERIFY_PATCH", "VERIFY_PATCH"),
        ("VERIFY_PATCH", "ISSUE_CLOSE", "CODE_FIX"),
        ("ISSUE_CLOSE", "FINAL_REPORT", "CODE_FIX"),
        ("FINAL_REPORT", None, "FINAL_REPORT"),
    ]
    assert [(name, phase.on_complete, phase.on_giveup) for name, phase in spec.phases.items()] == order
    assert spec.initial == "ISSUE_REPRODUCE"
    assert len(spec.edges()) == 15
    assert [len(phase.workflow) for phase in spec.phases.values()] == [10, 9, 9, 11, 9, 8, 9, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial": "NOWHERE"}, "initial: unknown phase 'NOWHERE'"),
        ({"phases": {"CODE_FIX": {"on_complete": "VERIFY_PACTH"}}}, "did you mean 'VERIFY_PATCH'"),
        ({"phases": {"EXTRA": {"goal": "g", "prompt": "p.md", "workflow": ["w"], "on_complete": None,
                               "on_giveup": "EXTRA"}}}, "phases.EXTRA: unreachable"),
        ({"phases": {"FINAL_REPORT": {"on_complete": "CODE_FIX"}}}, "no rollout can complete"),
        ({"phases": {"CODE_FIX": {"tools": ["hammer"]}}}, "unknown tool 'hammer'"),
        ({"phases": {"CODE_FIX": {"due": ["../x"]}}}, "phases.CODE_FIX.due: '../x' is not the name"),
        ({"phases": {"CODE_FIX": {"prompt": "absent.md"}}}, "there is no prompt 'absent.md'"),
        ({"action_format": "toolbash"}, "unknown 'toolbash', known: tool_bash"),
        ({"limits": {"step": 3}}, "limits.step: "),
        ({"limits": {"steps": 0}}, "limits.steps: "),
        ({"limits": {"steps": True}}, "limits.steps: "),
        ({"schema": 2}, "schema: "),
    ],
)  # fmt: skip
def test_a_spec_that_cannot_work_is_refused(change, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        agents.create(change)


WRONG = [
    ({"mechanism": {"skills": False}}, "mechanism: there is no such key, did you mean 'mechanisms'?"),
    ({"mechanisms": {"skils": False}}, "mechanisms.skils: there is no such key, did you mean 'skills'?"),
    ({"limits": {"step": 3}}, "limits.step: there is no such key, did you mean 'steps'?"),
    ({"roles": {"planner": {"temprature": 1}}}, "roles.planner.temprature: there is no such key, did you mean 'temper"),
    ({"phases": {"CODE_FIX": {"turn": 3}}}, "phases.CODE_FIX.turn: there is no such key, did you mean 'turns'?"),
    ({"sandbox": {"zzz": 1}}, "sandbox.zzz: there is no such key, known: memory_mb, "),
    ({"action_format": "tool-bash"}, "action_format: unknown 'tool-bash', known: tool_bash, markdown_bash, tool_call, "
     "toolcall, native, did you mean 'tool_bash'?"),
    ({"limits": {"steps": 0}}, "limits.steps: Input should be greater than or equal to 1"),
    ({"phases": {"CODE_FIX": {"tools": ["run_test"]}}}, "did you mean 'run_tests'?"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_fault_is_told_where_it_was_written(tmp_path, wrong, message):
    path = tmp_path / "mine.yaml"
    path.write_text(BUILT_IN.read_text())
    for options in (wrong, {"spec": str(path), **wrong}):
        with pytest.raises(ConfigError, match=f"^agent\\..*{re.escape(message)}") as caught:
            agents.create(options)
        assert "phases.yaml" not in str(caught.value)
        assert "An option of the agent in the experiment file" in str(caught.value)

    path.write_text(yaml.safe_dump(overlay(yaml.safe_load(BUILT_IN.read_text()), wrong)))
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: .*{re.escape(message)}"):
        agents.create({"spec": str(path), "limits": {"tokens": 9}})


def test_an_option_that_no_spec_has_is_proposed_too():
    with pytest.raises(ConfigError, match=r"^agent\.skill: there is no such key, did you mean 'skills'\?"):
        agents.create({"skill": "configs/my-skills"})


def test_a_spec_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    with pytest.raises(ConfigError, match=r"mine\.yaml cannot be read"):
        agents.create({"spec": path})
    path.write_text("- a list\n")
    with pytest.raises(ConfigError, match="a mapping is expected"):
        agents.create({"spec": path})
    phase = {"goal": "g", "prompt": "own.md", "workflow": ["work"], "on_complete": None, "on_giveup": "ONLY"}
    path.write_text(yaml.safe_dump({"schema": 1, "initial": "ONLY", "phases": {"ONLY": phase}}))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/own.md").write_text("Do it in {{ share }}.\n")
    assert agents.create({"spec": str(path)}).name == "phases"
    with pytest.raises(ConfigError, match=r"agent\.spec: the path of a YAML file is expected, not 5"):
        agents.create({"spec": 5})


def test_a_spec_of_ones_own_is_held_by_content(tmp_path):
    folder = tmp_path / "configs"
    (folder / "prompts").mkdir(parents=True)
    phase = {"goal": "g", "prompt": "own.md", "workflow": ["work"], "on_complete": None, "on_giveup": "ONLY"}
    (folder / "mine.yaml").write_text(yaml.safe_dump({"schema": 1, "initial": "ONLY", "phases": {"ONLY": phase}}))
    (folder / "prompts/own.md").write_text("Do it.\n")
    (folder / "prompts/memo_request.md").write_text("A memo of {{ name }}, please.\n")
    options = {"name": "phases", "spec": "configs/mine.yaml", "limits": {"steps": 7}}
    held = agents.with_files(options, tmp_path)
    (folder / "mine.yaml").write_text("- spoilt\n")
    (folder / "prompts/memo_request.md").unlink()
    agent = agents.create(held)
    assert (agent.spec.initial, agent.spec.limits.steps) == ("ONLY", 7)
    assert agent._prompts.memo_request("ONLY", "complete", "ONLY") == "A memo of ONLY, please."
    assert agents.with_files({"name": "phases", "limits": {"steps": 7}}, tmp_path) == {
        "name": "phases",
        "limits": {"steps": 7},
    }
    (folder / "prompts/own.md").write_text("{% if %}\n")
    (folder / "mine.yaml").write_text(held["spec"]["text"])
    with pytest.raises(ConfigError, match=r"own\.md:1: "):
        agents.create(agents.with_files(options, tmp_path))
    with pytest.raises(ConfigError, match=r"agent\.spec: .*absent\.yaml cannot be read: No such file"):
        agents.with_files({"spec": "absent.yaml"}, tmp_path)


def test_names_that_are_not_there():
    with pytest.raises(ConfigError, match=r"no agent 'phase'\n  Did you mean 'phases'"):
        agents.create({"name": "phase"})
    with pytest.raises(ConfigError, match=r"no model 'mutater'\n  Did you mean 'mutator'"):
        llm.create({"name": "mutater"})
    with pytest.raises(ConfigError, match="no model None"):
        llm.create({})


def reply(token: str, answer: str) -> str:
    return f"WORKFLOW: {token}\nTHOUGHT: because\nFINAL_ANSWER:\n{answer}"


@pytest.mark.parametrize(
    ("text", "token", "action"),
    [
        (reply("W0", "<tool: bash> ls </tool>"), "W0", "ls"),
        (reply("w3", "<TOOL:bash>\nls -l\n</TOOL >"), "W3", "ls -l"),
        (reply("W1", "<tool: bash>cat <<'EOF' > a.md\n```\nx\n```\nEOF\n</tool>"), "W1",
         "cat <<'EOF' > a.md\n```\nx\n```\nEOF"),
        (reply("W1", "<tool: bash> mkdir -p a/{b,c </tool>"), "W1", "mkdir -p a/{b,c"),
        (reply("W1", "<tool: bash> ls </tool>").replace("\n", "\r\n"), "W1", "ls"),
        ("WORKFLOW: W0\n<tool: bash> ls </tool>", "W0", "ls"),
        ("<think>WORKFLOW: W9 <tool: bash> rm </tool></think>\n" + reply("W0", "<tool: bash> ls </tool>"), "W0", "ls"),
        ("WORKFLOW: W0\nTHOUGHT: not <tool: bash> rm </tool>\nFINAL_ANSWER: <tool: bash> ls </tool>", "W0", "ls"),
        (reply("COMPLETE", ""), "COMPLETE", None),
        (reply("GIVEUP", "a memo"), "GIVEUP", None),
        ("WORKFLOW: COMPLETE", "COMPLETE", None),
        (reply("`HANDOVER`", "memo"), "HANDOVER", None),
    ],
)  # fmt: skip
def test_replies_that_can_be_read(text, token, action):
    turn = parse_turn(ChatReply(text, Usage()), BASH, 5)
    assert isinstance(turn, Turn)
    assert (turn.token, turn.action) == (token, action)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("I will look around first.", "first line"),
        (reply("W5", "<tool: bash> ls </tool>"), "'W5' is no workflow token here: use W0..W4"),
        (reply("DONE", "<tool: bash> ls </tool>"), "'DONE' is no workflow token"),
        (reply("W١", "<tool: bash> ls </tool>"), "no workflow token"),
        (reply("W0", "ls"), "no action"),
        (reply("W0", "```bash\nls\n```"), "no action"),
        (reply("W0", "<tool: bash> </tool>"), "is empty"),
        (reply("W0", "<tool: bash> ls"), "not closed"),
        (reply("W0", "ls </tool>"), "without <tool: bash>"),
        (reply("W0", "</tool><tool: bash> ls"), "not closed"),
        (reply("W0", "<tool: bash> a </tool><tool: bash> b </tool>"), "2 <tool: bash> actions"),
        (reply("COMPLETE", "<tool: bash> a </tool><tool: bash> b </tool>"), "2 <tool: bash> actions"),
        (reply("W0", "<tool: bash> grep '</tool>' x </tool>"), "more than once"),
        (reply("W0", "<tool: bash> a\0b </tool>"), "NUL"),
        (reply("W0", f"<tool: bash> {'é' * 60_000} </tool>"), "longer than 100,000 bytes"),
        (reply("W0", "<tool: python> 1 </tool>"), "without <tool: bash>"),
    ],
)
def test_replies_that_cannot(text, reason):
    turn = parse_turn(ChatReply(text, Usage()), BASH, 5)
    assert isinstance(turn, FormatError)
    assert reason in turn.reason


def test_a_reply_cut_at_the_token_limit_says_so():
    turn = parse_turn(ChatReply(reply("W0", "<tool: bash> ls"), Usage(), "length"), BASH, 5)
    assert "cut off at the server's token limit" in turn.reason


EXITS = ["COMPLETE", "GIVEUP", "HANDOVER"]


@pytest.mark.parametrize("token", EXITS)
@pytest.mark.parametrize(
    "rest", ["", "\nTHOUGHT: Before I leave I wan", "\nTHOUGHT: so\nFINAL_ANSWER:", "\nA memo that is"]
)
def test_an_exit_whose_answer_was_cut_away_is_not_taken(token, rest):
    text = f"WORKFLOW: {token}{rest}"
    cut = parse_turn(ChatReply(text, Usage(), "length"), BASH, 5)
    assert isinstance(cut, FormatError)
    assert f"{token} is not taken without anything under FINAL_ANSWER: (the reply was cut off" in cut.reason
    assert isinstance(parse_turn(ChatReply(text, Usage(), "stop"), BASH, 5), Turn)


@pytest.mark.parametrize("token", EXITS)
def test_a_memo_that_was_cut_is_still_a_memo(token):
    assert parse_turn(ChatReply(reply(token, "half a me"), Usage(), "length"), BASH, 5) == Turn(
        token, "because", None, "half a me"
    )


PIECES = [
    "<tool: bash>",
    "</tool>",
    "WORKFLOW: W0",
    "COMPLETE",
    "FINAL_ANSWER:",
    "THOUGHT:",
    "\n",
    " ",
    "ls",
    "<think>",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=14).map("".join))
def test_no_reply_crashes_or_gives_more_than_one_action(text):
    turn = parse_turn(ChatReply(text, Usage()), BASH, 5)
    if isinstance(turn, Turn) and turn.action is not None:
        assert "<tool" not in turn.action.lower() or "bash" not in turn.action.lower()
        assert "</tool>" not in turn.action.lower()
    elif isinstance(turn, Turn):
        assert turn.token in ("COMPLETE", "GIVEUP", "HANDOVER")
    else:
        assert turn.reason


@given(st.text(alphabet="`a\n", max_size=40))
def test_a_fence_cannot_be_closed_from_inside(text):
    block = fence(text)
    ticks = re.match(r"`+", block)[0]
    assert ticks not in block[len(ticks) : -len(ticks)]
    assert block.endswith("\n" + ticks)


def test_the_issue_is_rendered_with_what_it_has():
    issue = Issue(instance_id="a__b-1", repo="a/b", problem_statement="Breaks. {{ 7 * 7 }}", observed="")
    assert render_issue(issue) == "# Issue in a/b\n\nBreaks. {{ 7 * 7 }}\n\n## Observed\n\n```\n\n```"
    full = issue.model_copy(update={"snippet": "x = '''```'''", "expected": "1"})
    assert "## Code that shows it\n\n````python\nx = '''```'''\n````" in render_issue(full)
