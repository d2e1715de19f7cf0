"""Whole rollouts of the phases agent over real HTTP, with a server that fails: nothing is lost, all is counted."""

import asyncio
import json
from dataclasses import replace

import pytest
from support.fault_server import (
    ABORT,
    BROKEN,
    DEATH,
    OVERFLOWS,
    RESET,
    TOO_LARGE,
    UNKNOWN_MODEL,
    FaultServer,
    Step,
    busy,
    completion,
    good,
    serving,
    tool_call,
)
from support.local import LocalProvider
from support.openai import client
from support.rollouts import HAPPY, make_task
from support.scripted import turn

from uchide import agents
from uchide.agents import trajectory
from uchide.errors import ModelError, RateLimited, SpendLimit
from uchide.llm.spend import Ledger, SpendCaps

PRICE = {"input": 10.0, "output": 100.0}
CALL = (100 * 10 + 10 * 100) / 1e6
"""US dollars of one answer of the fault server."""
STEPS = [good(text) for text in HAPPY]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))


async def roll(folder, server, agent=None, meter=None, **options):
    """Candidate and trajectory of a rollout with this server."""
    task = make_task(folder)
    servers = server if isinstance(server, tuple) else (server,)
    async with client(*servers, price=PRICE, meter=meter, **options) as model:
        candidate = await agents.create(agent or {}).rollout(task, model, LocalProvider())
    return candidate, list(trajectory.read(task.trajectory))


def turns(records):
    return [record for record in records if isinstance(record, trajectory.TurnRecord)]


def with_faults(*faults: Step) -> list[Step]:
    """The happy script with one fault before every answer, in turn."""
    script: list[Step] = []
    for number, step in enumerate(STEPS):
        script += [faults[number % len(faults)], step]
    return script


async def test_a_rollout_survives_everything_that_passes(tmp_path):
    malformed = Step(200, '{"choices": [')
    with serving(*STEPS) as calm:
        expected, plain = await roll(tmp_path / "calm", calm)
    with serving(*with_faults(busy("0.01"), busy(), BROKEN, RESET, ABORT, malformed)) as server:
        candidate, records = await roll(tmp_path / "storm", server)
    assert candidate.exit_status == expected.exit_status == "completed"
    assert "+    return a + b" in candidate.patch
    assert (candidate.patch, candidate.suite) == (expected.patch, expected.suite)
    assert [record.reply for record in turns(records)] == [record.reply for record in turns(plain)] == list(HAPPY)
    assert len(server.asked) == 2 * len(HAPPY)
    aborted = len(HAPPY) // 6 + (len(HAPPY) % 6 > 4)
    assert candidate.usage.calls == len(HAPPY) + aborted
    assert candidate.usage.cost == pytest.approx(CALL * (len(HAPPY) + aborted)), "also what was thrown away"


@pytest.mark.parametrize("step", [1, 8])
async def test_a_server_that_dies_at_a_step_hands_over_to_the_next(tmp_path, step):
    with serving() as one, serving() as two:
        script = iter(STEPS)
        left = [step]

        def answer(_asked):
            if left and not left[0]:
                left.clear()
                return DEATH
            if left:
                left[0] -= 1
            return next(script)

        for server in (one, two):
            server.script(*[answer] * 40)
        candidate, records = await roll(tmp_path, (one, two))
        asked = sorted([len(one.asked), len(two.asked)])
    assert candidate.exit_status == "completed"
    assert [record.reply for record in turns(records)] == list(HAPPY)
    assert sum(asked) == len(HAPPY) + 1
    assert asked == sorted([step + 1, len(HAPPY) - step])


async def test_a_server_that_dies_for_good_is_infrastructure_and_keeps_what_was_done(tmp_path):
    with serving(*STEPS[:3], DEATH) as server, pytest.raises(ModelError) as caught:
        await roll(tmp_path, server, retry={"seconds": 0.2})
    assert caught.value.retryable
    records = list(trajectory.read(tmp_path / TRAJECTORY))
    assert [record.reply for record in turns(records)] == list(HAPPY[:3])
    end = records[-1]
    assert (end.exit_status, end.usage.calls) == ("infra", 3)
    assert end.usage.cost == pytest.approx(3 * CALL)


TRAJECTORY = "trajectories/main.r01_s1001.toy__calc-1.jsonl.zst"


async def test_waiting_for_a_busy_server_is_not_the_rollouts_time(tmp_path):
    with serving(STEPS[0], busy("3.0"), *STEPS[1:]) as server:
        candidate, records = await roll(tmp_path, server, {"limits": {"wall_time_s": 2.9}})
    assert candidate.exit_status == "completed"
    assert candidate.wall_seconds > 3.0
    assert records[-1].t < 2.9


async def test_persistent_429_is_infrastructure_and_a_later_run_succeeds(tmp_path):
    with serving(*STEPS[:2], *[busy("0.05")] * 50) as server:
        with pytest.raises(RateLimited) as caught:
            await roll(tmp_path / "first", server, retry={"seconds": 0.2})
        assert caught.value.retryable
        server.script(*STEPS)
        candidate, _ = await roll(tmp_path / "again", server)
    assert candidate.exit_status == "completed"


async def test_an_unknown_model_ends_at_the_first_request(tmp_path):
    with serving(*[UNKNOWN_MODEL] * 5) as server, pytest.raises(ModelError, match="does not exist") as caught:
        await roll(tmp_path, server)
    assert not caught.value.retryable
    assert len(server.asked) == 1


# --- too long --------------------------------------------------------------------------------------------------------
def _weighed(text):
    """An answer that counts the tokens it was asked with, four characters each."""

    def answer(asked):
        return good(text, prompt=sum(len(message["content"]) for message in asked.messages) // 4)

    return answer


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp", "proxy"])
async def test_an_overflow_compacts_and_goes_on(tmp_path, dialect):
    """The other dialects differ only in what `test_openai_client` tests."""
    long, *rest = (turn("W0", "seq 6000"), *HAPPY[1:])
    with serving(_weighed(long), OVERFLOWS[dialect], *map(_weighed, rest), models=[]) as server:
        candidate, records = await roll(tmp_path, server)
    assert candidate.exit_status == "completed"
    reasons = [record.reason for record in records if isinstance(record, trajectory.ContextRecord)]
    assert reasons.count("compaction") == 1
    refused, after = server.asked[1], server.asked[2]
    assert len(after.messages) < len(refused.messages), "never the same request again"
    assert candidate.usage.calls == len(HAPPY), "a refusal costs nothing"


async def test_what_never_fits_is_the_models_limit_and_no_failure_of_ours(tmp_path):
    with serving(*[TOO_LARGE] * 9) as server:
        candidate, _ = await roll(tmp_path, server)
    assert candidate.exit_status == "context_exceeded"
    assert len(server.asked) <= 2


# --- what models get wrong -------------------------------------------------------------------------------------------
async def test_malformed_tool_arguments_are_billed_and_shown_to_the_model(tmp_path):
    bad = [tool_call(arguments) for arguments in ('{"command": "ls"', "mkdir -p test/{a,b", "[1]")]
    for step in bad:
        step.body["choices"][0]["message"]["content"] = "WORKFLOW: W1\nTHOUGHT: look"
    with serving(*bad, *bad) as server:
        candidate, records = await roll(tmp_path, server, {"action_format": "native", "limits": {"format_errors": 3}})
    assert candidate.exit_status == "format_errors"
    errors = [record.format_error for record in turns(records)]
    assert len(errors) == 3
    assert all(errors)
    assert candidate.usage.cost == pytest.approx(3 * CALL)
    shown = server.asked[1].messages[-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(shown) == {"malformed": '{"command": "ls"'}


async def test_calls_that_cannot_be_read_count_towards_the_cost_limit(tmp_path):
    with serving(*[good("no workflow line here")] * 9) as server:
        candidate, _ = await roll(tmp_path, server, {"limits": {"cost": 1.9 * CALL, "format_errors": 9}})
    assert candidate.exit_status == "cost_limit"
    assert len(server.asked) == 2


async def test_an_answer_cut_by_its_length_is_no_action(tmp_path):
    cut = good(turn("W1", "touch /share/half"), "length")
    with serving(cut, *STEPS) as server:
        candidate, records = await roll(tmp_path, server)
    assert candidate.exit_status == "completed"
    first = turns(records)[0]
    assert first.action is None
    assert "cut off" in first.format_error


# --- time and money --------------------------------------------------------------------------------------------------
async def test_the_rollouts_own_time_limit_ends_a_slow_answer(tmp_path):
    with serving(Step(body=completion(), delay_s=2.0)) as server:
        candidate, _ = await roll(tmp_path, server, {"limits": {"wall_time_s": 1.2}})
    assert candidate.exit_status == "time_limit"
    assert len(server.asked) == 1


async def test_slow_tokens_beyond_the_time_out_are_not_asked_for_again(tmp_path):
    with serving(Step(body=completion(), delay_s=0.8)) as server:
        failing = roll(tmp_path, server, timeout_s=0.2)
        with pytest.raises(ModelError, match="it is not asked again"):
            await failing
    assert len(server.asked) == 1


async def test_a_reached_cap_ends_the_rollout_at_its_next_call_and_it_is_done_again_later(tmp_path):
    with serving(*STEPS, *STEPS) as server:
        caps = SpendCaps(usd=4.5 * CALL)
        with pytest.raises(SpendLimit, match=r"policy\.spend\.usd is reached"):
            await roll(tmp_path / "one", server, meter=Ledger(tmp_path / "spend", "one", caps))
        assert len(server.asked) == 5
        server.script(*STEPS)
        raised = Ledger(tmp_path / "spend", "two", caps.model_copy(update={"usd": 1.0}))
        candidate, _ = await roll(tmp_path / "two", server, meter=raised)
    assert candidate.exit_status == "completed"
    assert raised.total.usd == pytest.approx((5 + len(HAPPY)) * CALL)


async def test_an_unpriced_model_costs_an_unknown_sum_and_the_rollout_runs(tmp_path):
    with serving(*STEPS) as server:
        async with client(server) as model:
            candidate = await agents.create({}).rollout(make_task(tmp_path), model, LocalProvider())
    assert candidate.exit_status == "completed"
    assert candidate.usage.cost is None


# --- many at once ----------------------------------------------------------------------------------------------------
async def test_many_rollouts_share_a_server_that_refuses_now_and_then(tmp_path):
    """Each rollout gets its own answers, though a fifth of all requests is refused."""
    server = _by_conversation()
    try:
        async with client(server, price=PRICE, concurrency=3) as model:

            async def one(number):
                task = replace(make_task(tmp_path / str(number)), seed=1001 + number)
                return await agents.create({}).rollout(task, model, LocalProvider())

            done = await asyncio.gather(*map(one, range(4)))
    finally:
        server.close()
    assert [candidate.exit_status for candidate in done] == ["completed"] * 4
    assert all(candidate.usage.calls == len(HAPPY) for candidate in done)
    assert len({candidate.patch for candidate in done}) == 1
    answered = [asked for asked in server.asked if asked.number % 5]
    assert len(answered) == 4 * len(HAPPY)


def _by_conversation() -> FaultServer:
    """A server that knows each rollout by its seed; every fifth request is refused."""
    taken: dict[int, int] = {}

    def answer(asked):
        if asked.number % 5 == 0:
            return busy("0.02")
        seed = asked.body["seed"]
        taken[seed] = taken.get(seed, -1) + 1
        return STEPS[taken[seed]]

    return FaultServer([answer] * 1000, None)
