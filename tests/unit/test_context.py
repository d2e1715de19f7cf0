"""The context of a conversation: budgets by the server's counts, compaction, elision, and growth at its end only."""

import asyncio
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.local import LocalProvider, LocalSandbox
from support.rollouts import HAPPY, make_task
from support.scripted import Scripted, turn

from uchide import agents
from uchide.actions import FORMATS
from uchide.agents import trajectory
from uchide.agents.checkpoint import Counters
from uchide.agents.context import ANSWER_TOKENS, RESERVE, Budget, answer_room
from uchide.agents.interop.invariants import violations
from uchide.agents.limits import RolloutLimits
from uchide.agents.observation import render, shorten
from uchide.agents.phases.prompts import Prompts
from uchide.agents.phases.run import PhasesRun
from uchide.agents.phases.spec import load_spec
from uchide.agents.session import RolloutEnded, Session
from uchide.errors import ConfigError, ContextOverflow
from uchide.protocols import ChatReply, ExecResult, Message, Sampling, ToolCall
from uchide.records import Usage

BIG = "seq -f 'line %05g' 1 500"
"""5,500 characters of output."""


def of(records, kind):
    return [record for record in records if record.kind == kind]


def tokens(messages):
    """What our server counts: a token per three characters."""
    return sum(len(message.content) + sum(len(c.arguments) for c in message.tool_calls) for message in messages) // 3


class Server(Scripted):
    """A scripted model that counts tokens and refuses what is too long for `limit`; `tokens` is what it says of it."""

    def __init__(self, answers, limit=10**9, says=None):
        super().__init__(answers, tokens=says)
        self.limit = limit
        self.whole = []
        self.refused = []
        self.memos = itertools.repeat("the memo of the summary")

    async def complete(self, request):
        request = replace(request, messages=list(request.messages))
        self.whole.append(request)
        count = tokens(request.messages)
        if count + (request.sampling.max_tokens or 500) > self.limit:
            self.refused.append(request)
            raise ContextOverflow("the prompt is too long")
        if request.role == "summary":
            return ChatReply(next(self.memos), Usage(calls=1, prompt_tokens=count, completion_tokens=8))
        if request.role == "formatter":
            return ChatReply(request.messages[1].content, Usage(calls=1, prompt_tokens=count, completion_tokens=8))
        reply = await super().complete(request)
        return replace(reply, usage=Usage(calls=1, prompt_tokens=count, completion_tokens=len(reply.text) // 3))

    def sent(self, role="agent"):
        return [request.messages for request in self.whole if request.role == role]


async def run(folder, model, options):
    task = make_task(Path(folder))
    candidate = await agents.create(options).rollout(task, model, LocalProvider())
    records = list(trajectory.read(task.trajectory))
    assert list(violations(records)) == []
    return candidate, records


def options(steps, window=None, **more):
    """No skills: small prompts."""
    limits = {"steps": steps, **({"context_tokens": window} if window else {})}
    return {"limits": limits, "mechanisms": {"skills": False, **more}, "sampling": {"max_tokens": 500}}


# --- the budget ------------------------------------------------------------------------------------------------------
def reply(text, prompt, completion):
    return ChatReply(text, Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion))


def test_tokens_are_those_of_the_server_plus_an_estimate_of_what_was_added():
    budget = Budget(1000, 100)
    budget.rebuilt([Message("system", "x" * 900), Message("user", "y" * 300)])
    assert not budget.over()
    budget.replied(reply("z" * 30, 400, 10))
    assert budget.tokens() == 410
    budget.grew([Message("user", "o" * 240)])
    assert budget.tokens() == 410 + 100  # three characters per token so far, and a margin of a fifth
    assert budget.room() == (1000 - 100 - RESERVE - 510) * 12 // 5
    assert not budget.over()
    budget.grew([Message("user", "o" * (budget.room() + 30))])
    assert budget.over()
    assert budget.room() == 0
    assert budget.left() < 100 + RESERVE
    assert budget.left() - budget.left(240) == 100


def test_a_server_that_counts_nothing_is_estimated_throughout():
    budget = Budget(1000, 100)
    budget.rebuilt([Message("user", "y" * 1200)])
    budget.replied(reply("z" * 240, 0, 0))
    assert budget.tokens() == 600


def test_nothing_is_too_long_where_nobody_says_how_long_it_may_be():
    budget = Budget(None, 100)
    budget.rebuilt([Message("user", "y" * 10**7)])
    budget.replied(reply("z", 3 * 10**6, 1))
    assert (budget.over(), budget.room(), budget.left(10**7)) == (False, None, None)
    budget.refused()
    assert budget.over()


def test_tool_calls_count():
    plain, calling = Budget(1000, 100), Budget(1000, 100)
    plain.rebuilt([Message("user", "abc")])
    calling.rebuilt([Message("user", "abc"), Message("assistant", "", (ToolCall("i", "bash", "x" * 300),))])
    assert calling.tokens() - plain.tokens() == pytest.approx(101, abs=1)


def test_an_answer_of_unlimited_length_has_room():
    assert answer_room(100_000, 700) == 700
    assert answer_room(100_000, None) == ANSWER_TOKENS
    assert answer_room(8_000, None) == 2_000


def test_a_budget_that_leaves_no_room_for_an_answer_is_refused():
    with pytest.raises(ConfigError, match=r"context_tokens: 600 leaves no room beside max_tokens 700 \(formatter\)"):
        agents.create({"limits": {"context_tokens": 600}, "roles": {"formatter": {"max_tokens": 700}}})


# --- elision ---------------------------------------------------------------------------------------------------------
@given(st.text(alphabet="ab\n", max_size=200), st.integers(0, 80), st.integers(0, 1) | st.integers(0, 10**6))
def test_elision_keeps_head_and_tail_and_says_how_much_is_gone(text, limit, omitted):
    short = shorten(text, limit, omitted)
    if len(text) <= limit and not omitted:
        assert short == text
        return
    head, _, rest = short.partition("\n[... ") if limit else ("", "", short.removeprefix("\n[... "))
    told, _, tail = rest.partition(" left out ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    gone = text[len(head) : len(text) - len(tail)]
    assert told.startswith(f"{len(gone):,} characters ({gone.count(chr(10)):,} lines)")
    assert (f"and {omitted:,} more bytes" in told) == bool(omitted)
    assert len(head) + len(tail) <= limit


def test_a_stub_says_how_long_the_output_was():
    result = ExecResult(0, b"a\n" * 5000, omitted=70)
    assert render(result, 0) == (
        "<returncode>0</returncode>\n<output>\n\n"
        "[... 10,000 characters (5,000 lines) and 70 more bytes left out ...]\n</output>"
    )


# --- rollouts --------------------------------------------------------------------------------------------------------
STEPS = [turn(f"W{n % 9}", f"{BIG}; echo step-{n}", thought=f"thought {n}") for n in range(30)]


async def test_over_budget_the_conversation_goes_on_from_a_memo(tmp_path):
    model = Server(STEPS)
    candidate, records = await run(tmp_path, model, options(6, window=6000))
    rebuilt = [record for record in of(records, "context") if record.reason == "compaction"]
    summary = of(records, "call")
    assert candidate.exit_status == "step_limit"
    assert rebuilt
    assert len(rebuilt) == len(summary)
    assert all(call.role == "summary" and call.reply == "the memo of the summary" for call in summary)
    first = records.index(summary[0])
    assert (records[first + 1].kind, records[first + 2].n) == ("context", summary[0].turn)
    assert "```\nthe memo of the summary\n```" in rebuilt[0].messages[1].content
    asked = model.sent("summary")[0]
    assert asked[:-2] == model.sent()[summary[0].turn - 2]
    assert "The context is nearly full" in asked[-1].content
    assert candidate.turns == len(of(records, "turn")) == 6
    assert candidate.usage.calls == 6 + len(summary)
    assert not any(tokens(messages) + 500 > 6000 for messages in model.sent())
    assert {file.path: file.text for file in of(records, "phase")[0].share}["ISSUE_REPRODUCE.md"].startswith("the memo")


async def test_the_memo_of_a_compaction_outlasts_a_memo_turn_that_cannot_be_read(tmp_path):
    given = options(7, window=6000)
    model = Server([*STEPS[:5], "nonsense", STEPS[6]])
    given["phases"] = {"ISSUE_REPRODUCE": {"turns": 5}}
    _, records = await run(tmp_path, model, given)
    assert of(records, "turn")[5].format_error
    left = of(records, "phase")[0]
    assert (left.exit, left.memo.strip()) == ("turn_limit", "the memo of the summary")


async def test_the_window_of_the_models_server_is_the_budget_where_none_is_set(tmp_path):
    model = Server(STEPS, limit=6000, says=6000)
    candidate, records = await run(tmp_path, model, options(6))
    assert "compaction" in [record.reason for record in of(records, "context")]
    assert (candidate.exit_status, model.refused) == ("step_limit", [])


async def test_a_new_observation_that_does_not_fit_is_shortened_then_a_stub(tmp_path):
    model = Server([turn("W0", f"{BIG}; {BIG}"), turn("W1", BIG, thought="word " * 300), turn("W2", "true")])
    _, records = await run(tmp_path, model, options(3, window=4000))
    first, second, _ = of(records, "turn")
    assert "line 00001" in first.observation
    assert "line 00500" in first.observation
    assert "characters (" in first.observation
    assert second.observation == (
        "<returncode>0</returncode>\n<output>\n\n[... 5,500 characters (500 lines) left out ...]\n</output>"
    )


async def test_a_memo_that_no_longer_fits_is_written_by_the_runtime(tmp_path):
    long = "WORKFLOW: W1\nTHOUGHT: " + "so " * 600 + "\nFINAL_ANSWER:\n<tool: bash> echo deep </tool>"
    model = Server([turn("W0", "echo one", thought="first idea"), long, turn("W2", "true")])
    _, records = await run(tmp_path, model, options(3, window=2100))
    assert model.sent("summary") == []
    memo = of(records, "context")[1].messages[1].content
    assert of(records, "context")[1].reason == "compaction"
    for part in ("Written by the runtime", "W0: first idea", "$ echo one", "return code 0", "$ echo deep"):
        assert part in memo


async def test_overflow_is_asked_once_then_compacted(tmp_path):
    """Nobody said how long a prompt may be: the server refuses one, and that length is kept to afterwards."""
    model = Server(STEPS, limit=8000)
    candidate, records = await run(tmp_path, model, options(14))
    assert candidate.exit_status == "step_limit"
    assert [request.role for request in model.refused].count("agent") == 1
    place = model.whole.index(model.refused[0])
    after = model.whole[place + 1]
    assert (after.role, len(after.messages)) == ("agent", 2)
    assert "Written by the runtime" in after.messages[1].content
    assert [record.reason for record in of(records, "context")].count("compaction") >= 2
    assert model.sent("summary")
    sent = [tuple(messages) for messages in model.sent()]
    assert len(set(sent)) == len(sent)


async def test_a_fresh_conversation_that_overflows_ends_the_rollout(tmp_path):
    model = Server(STEPS, limit=700)
    candidate, records = await run(tmp_path, model, options(9))
    assert candidate.exit_status == records[-1].exit_status == "context_exceeded"
    assert (candidate.turns, len(model.whole)) == (0, 1)
    assert of(records, "phase")[0].exit == "ended"


async def test_a_rebuilt_conversation_that_is_still_too_long_ends_the_rollout(tmp_path):
    model = Server(STEPS)
    candidate, records = await run(tmp_path, model, options(9, window=1300))
    assert candidate.exit_status == "context_exceeded"
    assert candidate.turns == len(of(records, "turn")) == 1


async def test_an_overflow_right_after_a_compaction_ends_the_rollout(tmp_path):
    class Shrinking(Server):
        async def complete(self, request):
            if len(self.whole) == 2:
                self.limit = 100
            return await super().complete(request)

    model = Shrinking(STEPS)
    candidate, _ = await run(tmp_path, model, options(9))
    assert candidate.exit_status == "context_exceeded"
    assert [len(request.messages) for request in model.refused] == [6, 2]


async def test_without_handover_a_compaction_asks_nothing_and_leaves_no_memo(tmp_path):
    model = Server(STEPS)
    _, records = await run(tmp_path, model, options(6, window=6000, handover=False))
    assert (model.sent("summary"), of(records, "call")) == ([], [])
    rebuilt = of(records, "context")[1].messages[1].content
    assert "# This phase so far" in rebuilt
    assert "W0: thought 0" in rebuilt
    assert [file.path for file in of(records, "phase")[0].share] == ["issue.json"]


async def test_an_exit_without_room_to_ask_for_its_memo_hands_over_the_last_thought(tmp_path):
    long = turn("COMPLETE", "echo x > /share/reproduce.md; seq 5000", thought="word " * 500 + "the end")
    model = Server([turn("W0", "true"), long, turn("W0", "true")])
    _, records = await run(tmp_path, model, options(3, window=2300))
    assert of(records, "phase")[0].memo.endswith("the end")
    assert len(of(records, "turn")) == 3


async def test_memos_take_at_most_a_third_of_the_room(tmp_path):
    model = Server([*HAPPY[:2], turn("COMPLETE", memo="m" * 9000), turn("W0", "true")])
    candidate, records = await run(tmp_path, model, options(4, window=4000))
    opening = of(records, "context")[1].messages[1].content
    assert candidate.exit_status == "step_limit"
    assert 2000 < opening.count("m") < 4000
    assert "characters (0 lines) left out" in opening


async def test_a_summary_in_the_form_of_a_turn_and_one_by_a_native_model(tmp_path):
    def call(n):
        arguments = json.dumps({"command": f"{BIG}; echo {n}"})
        return ChatReply(
            "WORKFLOW: W0\nTHOUGHT: t\n", Usage(), "tool_calls", "", (ToolCall(f"c{n}", "bash", arguments),)
        )

    model = Server([call(n) for n in range(9)])
    model.memos = itertools.repeat(turn("HANDOVER", memo="the memo under the marker"))
    _, records = await run(tmp_path, model, {**options(9, window=6000), "action_format": "native"})
    asked = next(request for request in model.whole if request.role == "summary")
    assert (asked.messages[-1].role, asked.messages[-1].tool_call_id != "", len(asked.tools)) == ("tool", True, 1)
    assert "```\nthe memo under the marker\n```" in of(records, "context")[1].messages[1].content


@pytest.mark.parametrize(("code", "warned"), [(1, [2, 4]), (0, [])])
async def test_repeated_failures_draw_a_warning(tmp_path, code, warned):
    script = [turn("W0", f"echo {n}; exit {code}") for n in range(4)] + [turn("W0", "exit 3"), turn("W0", "true")]
    limits = {"limits": {"steps": 6, "failures": 2}}
    _, records = await run(tmp_path, Server(script), limits)
    seen = [
        n for n, record in enumerate(of(records, "turn"), 1) if "ended with return code" in (record.observation or "")
    ]
    assert seen == warned


# --- bug cases -------------------------------------------------------------------------------------------------------
def priced(text, cost, calls=()):
    return ChatReply(text, Usage(calls=1, prompt_tokens=10, completion_tokens=1, cost=cost), "stop", "", calls)


async def test_replies_that_fail_to_parse_count_towards_the_cost_limit(tmp_path):
    model = Scripted([priced("unreadable", 1.0)] * 3)
    candidate, _ = await run(tmp_path, model, {"limits": {"cost": 2}})
    assert (candidate.exit_status, candidate.turns, candidate.format_errors) == ("cost_limit", 2, 2)
    assert candidate.usage.cost == 2.0


async def test_an_unknown_price_is_no_reason_to_stop(tmp_path):
    answers = [ChatReply(answer, Usage(calls=1, prompt_tokens=10, cost=None)) for answer in HAPPY]
    candidate, _ = await run(tmp_path, Scripted(answers), {"limits": {"cost": 0.01}})
    assert (candidate.exit_status, candidate.usage.cost) == ("completed", None)


@pytest.mark.parametrize("unpriced", [0, 1])
async def test_a_call_of_unknown_cost_leaves_the_known_ones_under_the_limit(tmp_path, unpriced):
    answers = [priced("", 1.0) for _ in range(4)]
    answers[unpriced] = priced("", None)
    candidate, _ = await run(tmp_path, Scripted(answers), {"limits": {"cost": 2, "format_errors": 9}})
    assert (candidate.exit_status, candidate.turns, candidate.usage.cost) == ("cost_limit", 3, None)


def test_the_known_cost_outlasts_a_kill(tmp_path):
    session = Session(make_task(tmp_path), Scripted([]), None, None, "t", Sampling(), RolloutLimits(cost=2))
    session.known_cost, session.usage = 2.0, Usage(calls=3, cost=None)
    saved = Counters.model_validate_json(Counters.of(session).model_dump_json())
    again = Session(session.task, session.model, None, None, "t", Sampling(), RolloutLimits(cost=2))
    saved.give(again)
    with pytest.raises(RolloutEnded, match="cost_limit"):
        again.check()


@pytest.mark.parametrize(
    "arguments",
    [
        '{"command": "touch /share/ran"',
        '{"command":"touch /share/ran"}\n{"command":"pwd"}',
        "[1]",
        '{"command": 5}',
        '"ls"',
    ],
)
async def test_malformed_tool_arguments_are_one_recorded_error_and_counted(tmp_path, arguments):
    bad = priced("WORKFLOW: W0\nTHOUGHT: x\n", 0.5, (ToolCall("c", "bash", arguments),))
    after = priced("WORKFLOW: W0\nTHOUGHT: x\n", 0.5, (ToolCall("d", "bash", '{"command": "ls /share"}'),))
    candidate, records = await run(
        tmp_path, Scripted([bad, after, bad]), {"action_format": "native", "limits": {"steps": 3}}
    )
    first, second, _ = of(records, "turn")
    assert first.format_error
    assert first.action is None
    assert "ran" not in second.observation
    assert (candidate.usage.cost, candidate.format_errors) == (1.5, 2)


HEREDOC = (
    "cat > /share/n.md <<'EOF'\n```bash\necho inner\n```\nWORKFLOW: COMPLETE\nFINAL_ANSWER:\nCOMPLETE\n<|im_end|>\nEOF"
)


@pytest.mark.parametrize("form", sorted(set(FORMATS) - {"native"}))
async def test_markers_and_fences_inside_a_heredoc_are_data(tmp_path, form):
    from uchide.actions import Call

    spelled = FORMATS[form].write(Call("bash", {"command": HEREDOC}))
    script = [f"WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\n{spelled}", "stop"]
    candidate, records = await run(tmp_path, Scripted(script), {"action_format": form, "limits": {"steps": 2}})
    first = of(records, "turn")[0]
    assert (first.token, first.action, first.returncode) == ("W0", HEREDOC, 0)
    assert candidate.phases == ("ISSUE_REPRODUCE",)
    note = {file.path: file.text for file in of(records, "phase")[0].share}["n.md"]
    assert note == "\n".join(HEREDOC.split("\n")[1:-1]) + "\n"


# --- growth ----------------------------------------------------------------------------------------------------------
MOVES = st.sampled_from(
    [
        turn("W0", "seq 1 20"),
        turn("W1", BIG),
        turn("W2", f"{BIG}; exit 1", thought="word " * 200),
        "unreadable",
        turn("HANDOVER", memo="go on"),
        turn("HANDOVER"),
        turn("GIVEUP", memo="no"),
        turn("COMPLETE"),
        turn("COMPLETE", "echo x > /share/reproduce.md"),
    ]
)


class Kept:
    """A trajectory in memory."""

    def __init__(self):
        self.records = []

    def write(self, record):
        self.records.append(record)


async def walk(folder, model, given, kept):
    """A walk through the phases, without what a rollout does before and after it."""
    task, spec, sandbox = make_task(Path(folder)), load_spec(overrides=given).active(), LocalSandbox(Path(folder))
    for name in ("testbed", "share"):
        (sandbox.root / name).mkdir()
    session = Session(task, model, sandbox, kept, "0" * 40, spec.sampling.with_seed(1), spec.limits)
    return await PhasesRun(spec, Prompts(spec), session).run()


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    moves=st.lists(MOVES, min_size=6, max_size=10),
    limit=st.sampled_from([2500, 4000, 9000, 10**9]),
    said=st.booleans(),
    formatter=st.booleans(),
    handover=st.booleans(),
)
def test_between_rebuilds_a_conversation_only_grows_at_its_end(moves, limit, said, formatter, handover):
    model = Server([*moves, *[turn("W0", "true")] * 30], limit, limit if said else None)
    kept = Kept()
    with tempfile.TemporaryDirectory() as folder:
        status = asyncio.run(walk(folder, model, options(10, formatter=formatter, handover=handover), kept))
    role = "planner" if formatter else "agent"
    assert status in ("step_limit", "format_errors", "visit_limit", "context_exceeded")
    answered = [request.messages for request in model.whole if request.role == role and request not in model.refused]
    assert [messages for _, messages in trajectory.conversation(kept.records)] == answered
    for turns in _conversations(kept.records):
        for before, after in itertools.pairwise(turns):
            assert after[: len(before)] == before
            assert len(after) == len(before) + 2
    refused = {tuple(request.messages) for request in model.refused}
    assert len(refused) == len(model.refused)
    assert not refused & {tuple(messages) for messages in answered}


def _conversations(records):
    """The requests of each stretch between two context records."""
    rebuilt = iter(trajectory.conversation(records))
    stretch = []
    for record in records:
        if record.kind == "context" and stretch:
            yield stretch
            stretch = []
        elif record.kind == "turn":
            stretch.append(next(rebuilt)[1])
    yield stretch
