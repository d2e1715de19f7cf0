"""Conversations of the blueprint agent: tools, format errors, nudges, finish checks, compression."""

import json
import re
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from support.blueprint import DEQUEUE, FIX, Player, bash, last_words, make_blueprint_task, note, play, replace
from support.local import LocalProvider

from uchide.actions import Call
from uchide.agents import trajectory
from uchide.agents.blueprint.prompts import Prompts
from uchide.agents.blueprint.spec import load_spec
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.subsession import Finished, Subsession, no_check
from uchide.agents.blueprint.toolset import Bench, call_tool
from uchide.agents.blueprint.work import Work
from uchide.agents.session import RolloutEnded, Session
from uchide.errors import ContextOverflow
from uchide.patches import snapshot
from uchide.protocols import ChatReply, Message, Sampling, ToolCall
from uchide.records import Usage
from uchide.testing import instance_spec

STATE = AgentState(visits={"IMPLEMENT": 1, "GATHER_CONTEXT": 1, "REPRODUCE_ISSUE": 1})


@asynccontextmanager
async def opened(folder, moves, options=None, tokens=None):
    """(work, records, model) of a session in a fresh tree; moves are those of IMPLEMENT."""
    task = make_blueprint_task(folder)
    spec = load_spec(options or {})
    model = Player({f"{name}.1": moves for name in spec.nodes}, tokens=tokens)
    async with LocalProvider().open(instance_spec(task.instance, task.tree, None, None)) as sandbox:
        with trajectory.TrajectoryWriter(task.trajectory) as writer:
            base = await snapshot(sandbox)
            session = Session(task, model, sandbox, writer, base, Sampling(), spec.limits)
            records = []
            yield Work(session, spec, Prompts(spec), records.append), records, model


async def converse(work, name="IMPLEMENT", check=no_check, queue=None, **values):
    values = {"attempt": 1, "attempts": 5, "diff": ""} | values
    opening = work.prompts.opening(work.session.task, STATE, name, **values)
    bench = Bench(work.session, queue)
    return await Subsession(work, STATE, name, opening, bench, check).run()


def turns(records):
    return [record for record in records if record.kind == "turn"]


async def test_it_ends_with_plain_text_and_its_requests_can_be_rebuilt(tmp_path):
    moves = (bash("echo hi"), Call("read", {"path": "calc.py"}), FIX, "Done.")
    async with opened(tmp_path, moves) as (work, records, model):
        assert await converse(work) == Finished("answered", "Done.")
        sent = [list(request.messages) for request in model.requests]
        assert [messages for _, messages in trajectory.conversation(records)] == sent
        for shorter, longer in pairwise(sent):
            assert longer[: len(shorter)] == shorter
        assert [message.role for message in sent[-1]] == ["system", "user", *["assistant", "tool"] * 3]
        assert sent[-1][3].tool_call_id == sent[-1][2].tool_calls[0].id
    first, second, third, last = turns(records)
    assert (first.tool, first.action, first.returncode) == ("bash", "echo hi", 0)
    assert "     2      return a - b\n" in second.observation
    assert (third.tool, json.loads(third.action)["new"]) == ("replace", "return a + b")
    assert (last.tool, last.action, last.observation) == ("", None, None)


def called(arguments, name="bash", **more):
    return ChatReply("", Usage(calls=1), "tool_calls", tool_calls=(ToolCall("c", name, arguments),), **more)


BAD = [
    (called("{"), "the JSON is"),
    (called("[1]"), "must be a JSON object"),
    (ChatReply("", Usage(calls=1), tool_calls=(ToolCall("a", "bash", "{}"), ToolCall("b", "bash", "{}"))), "only one"),
    (ChatReply("", Usage(calls=1)), "the reply is empty"),
    (ChatReply("  \n", Usage(calls=1)), "the reply is empty"),
    (ChatReply("I will now", Usage(calls=1), "length"), "cut off"),
    (
        ChatReply("", Usage(calls=1), "length", tool_calls=(ToolCall("c", "bash", '{"command": "touch ran"}'),)),
        "cut off",
    ),
    (ChatReply("<think>what now?</think>\n", Usage(calls=1)), "the reply is empty"),
]


async def test_replies_that_are_no_single_call_are_recorded_and_answered(tmp_path):
    moves = [move for reply, _ in BAD for move in (reply, bash("true"))]
    async with opened(tmp_path, [*moves, "Done."]) as (work, records, model):
        assert (await converse(work)).how == "answered"
        assert work.session.format_errors == len(BAD)
        for message in model.requests[-1].messages:
            assert message.role != "tool" or message.tool_call_id
    for turn, (_, says) in zip(turns(records)[: 2 * len(BAD) : 2], BAD, strict=True):
        assert says in turn.format_error
        assert f"Nothing was executed: {turn.format_error}." in turn.observation
        assert turn.action is None


async def test_a_limit_within_a_finish_check_does_not_lose_the_turn(tmp_path):
    async def late(_):
        raise RolloutEnded("time_limit")

    async with opened(tmp_path, ["Done."]) as (work, records, _):
        with pytest.raises(RolloutEnded, match="time_limit"):
            await converse(work, check=late)
        assert [turn.n for turn in turns(records)] == [work.session.turns] == [1]


async def test_too_many_format_errors_in_a_row_end_the_rollout(tmp_path):
    moves = (called("{"), bash("true"), *[called("{")] * 9)
    async with opened(tmp_path, moves, {"limits": {"format_errors": 3}}) as (work, records, _):
        with pytest.raises(RolloutEnded) as ended:
            await converse(work)
        assert ended.value.status == "format_errors"
        assert len(turns(records)) == 5


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (Call("fly", {}), "there is no tool 'fly' here; there are read, write, bash, replace"),
        (note("x"), "there is no tool 'note' here"),
        (Call("bash", {}), "bash: `command`: Field required"),
        (Call("bash", {"command": 3}), "`command`: Input should be a valid string"),
        (Call("bash", {"command": ""}), "`command`: String should have at least 1 character"),
        (Call("bash", {"command": "a", "cwd": "b"}), "`cwd`: Extra inputs are not permitted"),
        (Call("bash", {"command": "a\0b"}), "NUL"),
        (Call("read", {"path": "absent.py"}), "there is no file absent.py"),
        (Call("read", {"path": "tests"}), "there is no file tests"),
        (Call("read", {"path": "calc.py", "start": 99}), "calc.py has 6 lines"),
        (Call("read", {"path": "calc.py", "start": "1"}), "`start`: Input should be a valid integer"),
        (Call("read", {"path": "latin.txt"}), "not UTF-8"),
        (Call("replace", {"path": "calc.py", "old": "nowhere", "new": ""}), "`old` does not stand in calc.py"),
        (Call("replace", {"path": "calc.py", "old": "a", "new": ""}), "times in calc.py; it must stand there exactly"),
        (Call("replace", {"path": "calc.py", "old": "", "new": ""}), "`old`: String should have at least 1 character"),
        (Call("write", {"path": "calc.py/x", "content": ""}), "calc.py"),
    ],
)
async def test_what_goes_wrong_in_a_tool_is_an_observation(tmp_path, call, says):
    async with opened(tmp_path, ()) as (work, _, _):
        sandbox = work.session.sandbox
        (sandbox.testbed / "latin.txt").write_bytes(b"\xe9t\xe9\n")
        before = await snapshot(sandbox)
        result = await call_tool(call, ("read", "write", "bash", "replace"), Bench(work.session))
        assert result.text.startswith("error: ")
        assert says in result.text
        assert result.code == "error"
        assert await snapshot(sandbox) == before


async def test_edits_keep_modes_line_ends_and_links(tmp_path):
    async with opened(tmp_path, ()) as (work, _, _):
        root, bench = work.session.sandbox.testbed, Bench(work.session)
        (root / "run.sh").write_bytes(b"one\r\ntwo\r\n")
        (root / "run.sh").chmod(0o755)
        (root / "link.sh").symlink_to("run.sh")
        result = await call_tool(replace("two", "2\n3", "link.sh"), ("replace",), bench)
        assert result.code == 0
        assert (root / "run.sh").read_bytes() == b"one\r\n2\n3\r\n"
        assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (root / "link.sh").is_symlink()
        write = Call("write", {"path": "/testbed/new/deep/f.txt", "content": "é\n"})
        assert "wrote" in (await call_tool(write, ("write",), bench)).text
        assert (root / "new/deep/f.txt").read_text() == "é\n"
        shown = await call_tool(Call("read", {"path": "new/deep/f.txt"}), ("read",), bench)
        assert shown.text == "new/deep/f.txt, lines 1 to 1 of 1\n     1  é"


async def test_nudges_come_once_each_at_their_turns(tmp_path):
    moves = [*[bash(f"echo {number}") for number in range(61)], "Done."]
    async with opened(tmp_path, moves) as (work, records, model):
        await converse(work, "REPRODUCE_ISSUE")
    assert "Begin by exploring" in model.requests[0].messages[1].content
    nudged = {turn.n: turn.observation.rpartition("</output>")[2].strip() for turn in turns(records)[:-1]}
    found = {number: text for number, text in nudged.items() if text}
    assert list(found) == [8, 25, 50, 60]
    assert "write the tests now" in found[8]
    assert "test_uchide_r01_s1001.py" in found[8]
    assert "grep for the call sites" in found[25]
    assert "see each test fail" in found[50]
    assert "edges" in found[60]


async def test_habits_draw_a_warning(tmp_path):
    same, wrong = [bash("true")] * 4, [bash(f"exit 3 # {number}") for number in range(4)]
    moves = (*same, *wrong, bash("exit 4"), "Done.")
    async with opened(tmp_path, moves, {"limits": {"failures": 3}}) as (work, records, _):
        await converse(work)
    said = [turn.observation.rpartition("</output>")[2].strip() for turn in turns(records)[:-1]]
    assert ["same call 3 times" in said[2], "same call 4 times" in said[3]] == [True, True]
    assert ["3 calls all failed" in said[6], "4 calls all failed" in said[7]] == [True, True]
    assert [text for number, text in enumerate(said) if text and number not in (2, 3, 6, 7)] == []


async def test_the_turn_budget_ends_it_after_its_last_call_was_run(tmp_path):
    options = {"nodes": {"IMPLEMENT": {"turns": 3}}}
    async with opened(tmp_path, [bash(f"echo x >> f # {number}") for number in range(9)], options) as (
        work,
        records,
        model,
    ):
        assert (await converse(work)).how == "turn_limit"
        assert len(model.requests) == 3
        assert (work.session.sandbox.testbed / "f").read_text() == "x\n" * 3
    assert turns(records)[-1].observation is None


async def test_a_finish_check_refuses_and_says_why(tmp_path):
    reasons = iter(["first this", "then that", ""])

    async def check(_):
        return next(reasons)

    async with opened(tmp_path, ("a", "b", "c")) as (work, records, model):
        assert await converse(work, check=check) == Finished("answered", "c")
    assert [turn.rejected for turn in turns(records)] == [("first this",), ("then that",), ()]
    assert last_words(model.requests[1]) == "The step is not finished: first this"


async def test_gathering_cannot_end_with_files_unread_or_notes_on_tests_only(tmp_path):
    test_note = note("asserts", path="tests/test_calc.py")
    moves = {
        "REPRODUCE_ISSUE.1": ("No.",),
        "GATHER_CONTEXT.1": (
            Call("enqueue", {"path": "./calc.py", "why": "at fault"}),
            Call("enqueue", {"path": "calc.py", "why": "again"}),
            Call("enqueue", {"path": "absent.py", "why": "?"}),
            Call("enqueue", {"path": "../../etc/passwd", "why": "?"}),
            "Done.",
            DEQUEUE,
            test_note,
            note("has nothing to do with it", path="setup.py", relevant=False),
            "Done.",
            note("subtracts"),
            "Done.",
        ),
    }
    options = {"nodes": {"REPRODUCE_ISSUE": {"turns": 1}}, "limits": {"steps": 12}, "tests": {"regression": 0}}
    candidate, _, records = await play(tmp_path, moves, options)
    assert candidate.phases == ("LOAD_TASK", "REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT")
    gathered = [turn for turn in turns(records) if turn.phase == "GATHER_CONTEXT"]
    seen = [turn.observation for turn in gathered]
    assert seen[0] == "calc.py is in the queue; 1 to read"
    assert "already; 1 to read" in seen[1]
    assert "there is no file absent.py" in seen[2]
    assert "there is no file ../../etc/passwd" in seen[3]
    assert "1 files are still on the reading list (calc.py)" in seen[4]
    assert seen[5] == "Read calc.py: at fault. 0 more to read."
    assert "all your notes are about tests" in seen[8]
    assert gathered[-1].rejected == ()


async def test_compression_keeps_the_last_turns_verbatim(tmp_path):
    def numbered(request):
        """The next move by what was run last: a compressed conversation no longer counts its turns."""
        last = max((int(n) for n in re.findall(r"turn-(\d\d)", last_words(request))), default=0)
        return bash(f"echo turn-{last + 1:02}") if last < 23 else "Done."

    async with opened(tmp_path, [numbered] * 99) as (work, records, model):
        assert (await converse(work)).how == "answered"
    assert [record.kind for record in records if record.kind != "turn"] == ["context", "call", "context"]
    asked = model.of("IMPLEMENT")
    assert len(asked) == 24
    before, after = asked[20].messages, asked[21].messages
    assert len(before) == 2 + 2 * 20
    assert len(after) == 2 + 2 * 6
    assert after[2:] == [*before[2 + 2 * 15 :], *after[-2:]]
    assert [re.findall(r"turn-\d\d", message.content)[0] for message in after[3::2]] == [
        f"turn-{number}" for number in range(16, 22)
    ]
    assert after[0] == before[0]
    assert after[1].content.startswith(before[1].content)
    assert "SUMMARY of what was done" in after[1].content
    assert asked[23].messages[: len(after)] == after
    (summary,) = model.of("IMPLEMENT", "summary")
    assert summary.tools == ()
    assert "turn-15" in summary.messages[1].content
    assert "turn-16" not in summary.messages[1].content
    (call,) = (record for record in records if record.kind == "call")
    assert (call.role, call.turn, call.reply) == ("summary", 22, "SUMMARY of what was done")
    context = [record for record in records if record.kind == "context"][1]
    assert (context.reason, [one.message() for one in context.messages]) == ("compaction", after)
    assert [messages for _, messages in trajectory.conversation(records)] == [list(one.messages) for one in asked]
    assert work.session.turns == 24


class Narrow(Player):
    """Refuses what is longer than `limit` characters."""

    limit = 0

    async def complete(self, request):
        if sum(len(message.content) for message in request.messages) > self.limit:
            self.requests.append(request)
            raise ContextOverflow("too long")
        return await super().complete(request)


async def test_an_overflow_is_compressed_and_asked_again(tmp_path):
    long = "x" * 3000

    def move(request):
        return "Done." if "SUMMARY" in request.messages[1].content else bash(f"echo {long}")

    async with opened(tmp_path, [move] * 50) as (work, records, model):
        narrow = Narrow(model.moves)
        narrow.limit = 20_000
        work.session.model = narrow
        assert (await converse(work)).how == "answered"
    assert [record.kind for record in records].count("call") == 1
    assert work.session.usage.calls == len(turns(records)) + 1


async def test_what_cannot_be_made_to_fit_ends_as_context_exceeded(tmp_path):
    async with opened(tmp_path, [bash("true")] * 50) as (work, _, model):
        narrow = Narrow(model.moves)
        narrow.limit = 100
        work.session.model = narrow
        with pytest.raises(RolloutEnded) as ended:
            await converse(work)
        assert ended.value.status == "context_exceeded"
    assert len(narrow.requests) == 1


async def test_the_models_window_is_respected_before_it_refuses(tmp_path):
    def move(request):
        chars = sum(len(message.content) for message in request.messages)
        assert chars < 4 * 8000
        if "SUMMARY" in request.messages[1].content:
            return "Done."
        call = ToolCall(f"c{len(request.messages)}", "bash", json.dumps({"command": "seq 1000"}))
        usage = Usage(calls=1, prompt_tokens=chars // 4, completion_tokens=20)
        return ChatReply("", usage, "tool_calls", tool_calls=(call,))

    async with opened(tmp_path, [move] * 50, {"sampling": {"max_tokens": 500}}, tokens=8000) as (work, records, _):
        assert (await converse(work)).how == "answered"
    assert [record.reason for record in records if record.kind == "context"] == ["enter", "compaction"]


def test_opening_messages_say_what_is_asked(tmp_path):
    task = make_blueprint_task(tmp_path)
    prompts = Prompts(load_spec({"action_format": "tool_call"}))
    messages = prompts.opening(task, STATE, "IMPLEMENT", attempt=1, attempts=5, diff="")
    assert [message.role for message in messages] == ["system", "user"]
    assert isinstance(messages[0], Message)
    system = messages[0].content
    assert '{"name": "replace", "description": ' in system
    assert "<tool_call>" in system
    assert "mro_check.py`: Show a class's method resolution order" in system
