"""The switches of the phases agent: what a model meets and what is recorded with one of its mechanisms off, or on."""

import json
import re
from dataclasses import replace

import pytest
from support.local import LocalProvider
from support.rollouts import FIX, HAPPY, PHASES, make_task, play
from support.scripted import Scripted, header, turn

from uchide import agents
from uchide.actions import FORMATS, Call
from uchide.agents import trajectory
from uchide.agents.interop.invariants import violations
from uchide.agents.phases.spec import load_spec
from uchide.errors import ConfigError, ContextOverflow
from uchide.protocols import ChatReply, Sampling, ToolCall
from uchide.records import Usage

USAGE = Usage(calls=1, prompt_tokens=100, completion_tokens=10)


def of(records, kind):
    return [record for record in records if record.kind == kind]


def off(name: str, **more):
    return {"mechanisms": {name: False}, **more}


class Asked(Scripted):
    """Keeps whole requests and answers by the role that is asked."""

    def __init__(self, answers, formatter=(), tokens=None):
        super().__init__(answers, tokens=tokens)
        self.whole = []
        self._formatted = iter(formatter)

    async def complete(self, request):
        self.whole.append(replace(request, messages=list(request.messages)))
        if request.role == "formatter":
            answer = next(self._formatted)
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, ChatReply) else ChatReply(answer, USAGE)
        return await super().complete(request)


async def run(folder, model, options):
    task = make_task(folder)
    candidate = await agents.create(options).rollout(task, model, LocalProvider())
    records = list(trajectory.read(task.trajectory))
    assert list(violations(records)) == []
    return candidate, records


async def test_without_phases_there_is_one_free_phase_with_every_tool(tmp_path):
    answers = (turn("COMPLETE"), turn("W5", FIX), turn("COMPLETE"))
    candidate, model, records = await play(tmp_path, answers, off("phases"))
    assert candidate.exit_status == "completed"
    assert candidate.phases == ("FREE",)
    first = header(model.requests[0])
    assert (first["phase"], first["due"], first["next"]) == ("FREE", ["diff"], {"complete": None, "giveup": "FREE"})
    assert first["tools"] == ["run_tests", "line_edit", "line_trace", "caller_trace"]
    assert records[0].edges == (("FREE", "giveup", "FREE"),)
    assert [record.rejected for record in of(records, "turn") if record.rejected] == [("diff",)]
    assert "phase of a fixed sequence" not in model.requests[0][0].content


async def test_giving_up_the_free_phase_twice_ends_as_gave_up(tmp_path):
    candidate, _, _ = await play(tmp_path, [turn("GIVEUP", memo="no")] * 2, off("phases"))
    assert (candidate.exit_status, candidate.phases) == ("gave_up", ("FREE", "FREE"))


async def test_the_free_phase_can_be_changed_and_other_phases_keep_their_overrides(tmp_path):
    options = {"phases": {"CODE_FIX": {"turns": 9}}, "free": {"turns": 2, "visits": 1}}
    assert agents.create(options).spec.phases["CODE_FIX"].turns == 9
    answers = (turn("W0", "true"), turn("W0", "true"), turn("HANDOVER", memo="nothing yet"))
    candidate, _, records = await play(tmp_path, answers, off("phases", **options))
    assert (candidate.exit_status, of(records, "phase")[0].exit) == ("gave_up", "turn_limit")


async def test_without_handover_no_memo_is_asked_for_carried_or_taken(tmp_path):
    answers = (HAPPY[1], turn("COMPLETE", memo="a memo"), turn("HANDOVER", memo="a memo"), turn("W0", "ls /share"))
    candidate, model, records = await play(tmp_path, answers, off("handover", limits={"steps": 4, "handover_turns": 2}))
    assert candidate.phases == ("ISSUE_REPRODUCE", "TEST_SYNTHESIZE")
    assert "reproduce.md" in model.requests[2][1].content
    assert not any("memo" in message.content.lower() for messages in model.requests for message in messages[:2])
    assert "no workflow token here: use W0..W8, COMPLETE, GIVEUP" in of(records, "turn")[2].format_error
    assert (
        of(records, "turn")[3].observation
        == "<returncode>0</returncode>\n<output>\nissue.json\nreproduce.md\n</output>"
    )
    assert of(records, "phase")[0].memo == ""


async def test_without_tools_only_the_models_own_are_there(tmp_path):
    provider, model = LocalProvider(), Scripted([turn("W0", "true")], tools=("try_edits",))
    await agents.create(off("tools", limits={"steps": 1})).rollout(make_task(tmp_path), model, provider)
    assert provider.specs[0].tools == ("try_edits",)
    assert header(model.requests[0])["tools"] == ["try_edits"]


@pytest.mark.parametrize("switches", [{"tools": False}, {"tools": False, "phases": False}])
async def test_without_tools_no_prompt_names_one(tmp_path, switches):
    answers = HAPPY if "phases" not in switches else (turn("W0", "true"), turn("W0", FIX), turn("COMPLETE"))
    _, model, _ = await play(tmp_path, answers, {"mechanisms": switches})
    assert not any(re.search(r"UCHIDE_TOOLS|line_trace|run_tests\.py", m[0].content) for m in model.requests)


def test_a_switch_is_true_or_false_and_has_a_known_name():
    with pytest.raises(ConfigError, match=r"mechanisms\.phase: "):
        agents.create({"mechanisms": {"phase": False}})
    with pytest.raises(ConfigError, match=r"mechanisms\.skills: "):
        agents.create({"mechanisms": {"skills": "no"}})
    with pytest.raises(ConfigError, match=r"free: its edges"):
        agents.create({"free": {"on_giveup": "CODE_FIX"}})


# --- planner and formatter -------------------------------------------------------------------------------------------
ON = {"mechanisms": {"formatter": True}}
LAST = "no reply in the form of a turn"
"""Ends a rollout at its step limit."""


async def test_the_formatter_writes_the_action_and_only_the_action(tmp_path):
    draft = "WORKFLOW: W1\nTHOUGHT: look\nFINAL_ANSWER:\nPlease run `echo hello`."
    formatted = "WORKFLOW: COMPLETE\nTHOUGHT: mine\n<tool: bash> echo hello </tool>"
    model = Asked([draft, LAST], [formatted])
    candidate, records = await run(tmp_path, model, {**ON, "limits": {"steps": 2}})
    planner, formatter, _ = model.whole
    assert (planner.role, formatter.role, formatter.place) == ("planner", "formatter", "ISSUE_REPRODUCE")
    assert [message.role for message in formatter.messages] == ["system", "user"]
    assert formatter.messages[1].content == draft
    assert header(formatter.messages) | {"role": "formatter", "action_format": "tool_bash"} == header(
        formatter.messages
    )
    assert header(planner.messages)["role"] == "planner"
    recorded = of(records, "turn")[0]
    assert (recorded.reply, recorded.token, recorded.action) == (draft, "W1", "echo hello")
    assert recorded.observation == "<returncode>0</returncode>\n<output>\nhello\n</output>"
    assert recorded.role == of(records, "context")[0].role == "planner"
    call = of(records, "call")[0]
    assert (call.role, call.turn, call.reply) == ("formatter", recorded.n, formatted)
    assert records.index(call) < records.index(recorded)
    assert (candidate.turns, candidate.usage.calls, candidate.usage.prompt_tokens) == (2, 3, 300)


async def test_a_whole_rollout_with_a_formatter(tmp_path):
    model = Asked(HAPPY, (answer for answer in HAPPY if "<tool: bash>" in answer))
    candidate, records = await run(tmp_path, model, ON)
    assert (candidate.exit_status, candidate.phases) == ("completed", PHASES)
    assert candidate.turns == len(HAPPY)
    assert len(of(records, "call")) == sum("<tool: bash>" in answer for answer in HAPPY)
    for before, after in zip(planned := [r for r in model.whole if r.role == "planner"], planned[1:], strict=False):
        if before.place == after.place:
            assert list(after.messages[: len(before.messages)]) == list(before.messages)


async def test_a_memo_needs_no_formatter_though_it_quotes_commands(tmp_path):
    memo = "Run it so:\n```bash\nrm -rf everything\n```"
    model = Asked([HAPPY[1], turn("COMPLETE", memo=memo), LAST], [HAPPY[1]])
    _, records = await run(tmp_path, model, {**ON, "limits": {"steps": 3}})
    assert [request.role for request in model.whole] == ["planner", "formatter", "planner", "planner"]
    assert of(records, "phase")[0].memo == memo


@pytest.mark.parametrize(
    ("formatted", "reason"),
    [
        ("no action", "the formatter found no action"),
        ("", "the formatter found no action"),
        ("<tool: bash> a </tool><tool: bash> b </tool>", "the formatter made no action of the draft: there are 2"),
        (ChatReply("<tool: bash> ls", USAGE, "length"), "not closed with </tool> (the reply was cut off"),
        (ContextOverflow("too long"), "too long for the formatter"),
    ],
)
async def test_a_formatter_without_exactly_one_action_is_a_recorded_format_error(tmp_path, formatted, reason):
    model = Asked([turn("W0", "touch /share/ran"), turn("W0", "ls /share"), LAST], [formatted, turn("W0", "ls /share")])
    candidate, records = await run(tmp_path, model, {**ON, "limits": {"steps": 3}})
    first, second, _ = of(records, "turn")
    assert reason in first.format_error
    assert first.action is None
    assert reason in model.whole[2].messages[-1].content
    assert "ran" not in second.observation
    assert candidate.format_errors == 2


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I look first.", "first line"),
        ("WORKFLOW: W0\nTHOUGHT: hm\nFINAL_ANSWER:\n", "no action"),
        (ChatReply("WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\nrm -rf /tmp/a", USAGE, "length"), "cut off"),
        (ChatReply("WORKFLOW: COMPLETE\nTHOUGHT: Before I", USAGE, "length"), "COMPLETE is not taken"),
    ],
)
async def test_a_planner_that_drafts_nothing_whole_is_refused_without_a_formatter_call(tmp_path, reply, reason):
    model = Asked([reply])
    candidate, records = await run(tmp_path, model, {**ON, "limits": {"steps": 1}})
    assert reason in of(records, "turn")[0].format_error
    assert (len(model.whole), candidate.format_errors) == (1, 1)


async def test_a_memo_that_is_cut_is_still_a_memo(tmp_path):
    memo = ChatReply(turn("GIVEUP", memo="cannot, since"), USAGE, "length")
    _, records = await run(tmp_path, Asked([memo, LAST]), {**ON, "limits": {"steps": 2}})
    assert (of(records, "phase")[0].exit, of(records, "phase")[0].memo) == ("giveup", "cannot, since")


async def test_each_role_has_its_own_sampling(tmp_path):
    options = {
        **ON,
        "limits": {"steps": 2},
        "sampling": {"temperature": 0.7, "max_tokens": 900},
        "roles": {"planner": {"temperature": 1.0}, "formatter": {"temperature": 0.0, "max_tokens": 300}},
    }
    model = Asked([turn("W0", "true"), LAST], [turn("W0", "true")])
    await run(tmp_path, model, options)
    assert [request.sampling for request in model.whole[:2]] == [
        Sampling(1001, 1.0, None, 900),
        Sampling(1001, 0.0, None, 300),
    ]


async def test_a_limit_between_the_two_calls_is_a_recorded_error_not_a_lost_turn(tmp_path):
    model = Asked([turn("W0", "touch /share/ran")], [turn("W0", "true")])
    candidate, records = await run(tmp_path, model, {**ON, "limits": {"tokens": 110}})
    assert candidate.exit_status == "token_limit"
    last = of(records, "turn")[0]
    assert "before the formatter answered" in last.format_error
    assert candidate.turns == len(of(records, "turn")) == 1


# --- action formats --------------------------------------------------------------------------------------------------
def spelled(form: str, token: str, command: str) -> ChatReply:
    """A turn in any format."""
    head = f"WORKFLOW: {token}\nTHOUGHT: so\n"
    if form == "native":
        return ChatReply(head, USAGE, "tool_calls", "", (ToolCall("c1", "bash", json.dumps({"command": command})),))
    return ChatReply(f"{head}FINAL_ANSWER:\n{FORMATS[form].write(Call('bash', {'command': command}))}", USAGE)


@pytest.mark.parametrize("form", sorted(FORMATS))
async def test_a_switch_of_format_changes_nothing_else(tmp_path, form):
    answers = []
    for answer in HAPPY:
        token = answer.split()[1]
        command = re.search(r"<tool: bash> (.*) </tool>", answer, re.DOTALL)
        answers.append(spelled(form, token, command[1]) if command else answer)
    model = Asked(answers)
    candidate, records = await run(tmp_path / form, model, {"action_format": form})
    assert (candidate.exit_status, candidate.phases, candidate.format_errors) == ("completed", PHASES, 0)
    assert "+    return a + b" in candidate.patch
    assert of(records, "turn")[0].action == "cat /share/issue.json"
    assert records[0].action_format == header(model.requests[0])["action_format"] == form
    rebuilt = [messages for _, messages in trajectory.conversation(records)]
    assert rebuilt == model.requests


async def test_native_calls_are_announced_answered_and_refused_through_the_api(tmp_path):
    broken = ChatReply(
        "WORKFLOW: W0\nTHOUGHT: x\n", USAGE, "tool_calls", "", (ToolCall("c0", "bash", '{"command": "ls"'),)
    )
    silent = ChatReply("", USAGE, "tool_calls", "", (ToolCall("c2", "bash", '{"command": "touch ran"}'),))
    model = Asked([broken, spelled("native", "W0", "echo hi"), silent, turn("W0", "ls")])
    _, records = await run(tmp_path, model, {"action_format": "native", "limits": {"steps": 4}})
    assert [tool.name for tool in model.whole[0].tools] == ["bash"]
    prompt = model.whole[0].messages[0].content
    assert "one call of the tool `bash`" in prompt
    assert "<tool" not in prompt
    refused, _, unsaid, texted = of(records, "turn")
    assert model.requests[1][-1].role == "tool"
    assert model.requests[1][-1].tool_call_id == "c0"
    assert refused.format_error in model.requests[1][-1].content
    assert model.requests[2][-1].content == "<returncode>0</returncode>\n<output>\nhi\n</output>"
    assert (unsaid.token, unsaid.action, unsaid.format_error) == ("", "touch ran", None)
    assert texted.format_error == "there is no call of the tool bash"


async def test_a_formatter_may_call_the_api_for_a_planner_that_writes_text(tmp_path):
    model = Asked([turn("W0", "echo hi"), LAST], [spelled("native", "W9", "echo hi")])
    _, records = await run(tmp_path, model, {**ON, "action_format": "native", "limits": {"steps": 2}})
    assert [len(request.tools) for request in model.whole] == [0, 1, 0]
    assert header(model.whole[0].messages)["action_format"] == "tool_bash"
    assert header(model.whole[1].messages)["action_format"] == "native"
    assert of(records, "turn")[0].observation == "<returncode>0</returncode>\n<output>\nhi\n</output>"
    assert of(records, "call")[0].tool_calls[0].name == "bash"


def test_the_mechanisms_stand_in_the_built_in_file():
    assert load_spec().mechanisms.model_dump() == {
        "phases": True,
        "formatter": False,
        "handover": True,
        "skills": True,
        "tools": True,
    }
