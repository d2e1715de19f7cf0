"""The client against a server that fails in every way we know of: each has its documented outcome."""

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from support.fault_server import (
    ABORT,
    BROKEN,
    DEATH,
    OVERFLOWS,
    RESET,
    UNKNOWN_MODEL,
    Step,
    busy,
    completion,
    error,
    good,
    serving,
    tool_call,
)
from support.openai import ask, client, until

from uchide.errors import ContextOverflow, ModelError, RateLimited
from uchide.records import Usage


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- what passes by itself -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "fault",
    [
        busy(),
        busy("0.01"),
        error(500, "EngineCore encountered an issue"),
        error(502, "bad gateway"),
        error(503, "loading", headers={"Retry-After": "0"}),
        Step(529, "overloaded"),
        Step(408, ""),
        Step(409, ""),
        RESET,
        ABORT,
        good("", "error"),
        good("", None),
        Step(200, '{"choices": [{"mess'),
        Step(200, "<html>a proxy's page</html>"),
        Step(200, {}),
        Step(200, []),
        Step(200, completion() | {"choices": []}),
        Step(200, completion() | {"choices": None}),
        Step(200, {"error": {"message": "upstream failed", "code": 502}}),
        Step(200, {"error": {"message": "slow down", "code": 429}}),
    ],
    ids=lambda step: f"{step.status}-{step.data()[:24]!r}{'-reset' * step.reset}",
)
async def test_a_failure_that_passes_is_tried_again(fault):
    with serving(fault, fault, good("fine")) as server:
        async with client(server) as model:
            reply = await ask(model)
    assert reply.text == "fine"
    assert len(server.asked) == 3
    assert all(asked.body == server.asked[0].body for asked in server.asked), "the same request each time"


async def test_thrown_away_answers_are_counted():
    with serving(ABORT, BROKEN, ABORT, good("fine", prompt=1000, output=100, cached=400)) as server:
        async with client(server, price={"input": 10.0, "output": 100.0, "cached": 1.0}) as model:
            reply = await ask(model)
    cost = 2 * (100 * 10 + 10 * 100) / 1e6 + (600 * 10 + 400 * 1 + 100 * 100) / 1e6
    assert reply.usage.cost == pytest.approx(cost)
    counts = reply.usage.model_dump(exclude={"cost"})
    assert counts == {"calls": 3, "prompt_tokens": 1200, "completion_tokens": 120, "cached_tokens": 400}


async def test_a_bad_answer_is_asked_for_as_often_as_configured():
    with serving(*[BROKEN] * 9) as server:
        async with client(server, retry={"attempts": 3}) as model:
            with pytest.raises(ModelError, match=r"model tiny\) answered 500: EngineCore.*given up") as caught:
                await ask(model)
            assert caught.value.retryable
            assert len(server.asked) == 3
            server.script()
            assert (await ask(model)).text == "ok", "other requests are still answered"


async def test_every_try_is_logged(caplog):
    with caplog.at_level(logging.WARNING), serving(BROKEN, busy()) as server:
        async with client(server) as model:
            await ask(model)
    assert [record.message.rpartition(" answered ")[2] for record in caplog.records] == [
        "500: EngineCore encountered an issue; trying again",
        "429: slow down; trying again",
    ]


# --- 429 -------------------------------------------------------------------------------------------------------------
async def test_one_request_with_bad_answers_makes_no_other_wait():
    def answer(asked):
        return ABORT if asked.messages[0]["content"] == "poison" else good("fine")

    with serving(*[answer] * 99) as server:
        async with client(server, retry={"attempts": 3, "base_s": 0.4, "max_s": 0.4}) as model:
            await ask(model)
            poison = asyncio.create_task(ask(model, "poison"))
            began = time.monotonic()
            for _ in range(5):
                assert (await ask(model)).text == "fine"
            assert time.monotonic() - began < 0.35
            with pytest.raises(ModelError, match="abort"):
                await poison
            assert time.monotonic() - began > 0.4


@pytest.mark.parametrize("wish", ["0.3", "date", "ms"])
async def test_a_pause_is_as_long_as_the_server_wishes(wish):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=1.7), usegmt=True)  # whole seconds
    headers = {"0.3": {"Retry-After": "0.3"}, "date": {"Retry-After": later}, "ms": {"Retry-After-Ms": "300"}}[wish]
    with serving(Step(429, {}, headers)) as server:
        async with client(server) as model:
            await ask(model)
    first, second = server.asked
    assert 0.25 <= second.at - first.at <= 3


async def test_one_refusal_makes_all_rollouts_wait_and_halves_what_is_in_flight():
    def slowly(text="ok"):
        step = good(text)
        return Step(step.status, step.body, delay_s=0.02)

    with serving(busy("0.3"), *[slowly()] * 200) as server:
        async with client(server, concurrency=8) as model:
            await asyncio.gather(*(ask(model, str(n)) for n in range(40)))
            limit = model._servers.all[0].lanes.limit
    refused = server.asked[0].at
    assert [asked for asked in server.asked if 0.2 < asked.at - refused < 0.28] == []
    assert 5 < server.most_in_flight <= 8
    after = [asked.in_flight for asked in server.asked if asked.at - refused >= 0.28]
    assert max(after[:8]) <= 5, "four at once to begin with"
    assert 4 < limit <= 8, "and more again with every success"


async def test_other_jobs_of_the_machine_wait_too(cache):
    with serving(busy("0.4")) as server:
        async with client(server) as one, client(server) as other:
            first = asyncio.create_task(ask(one))
            await until(lambda: list((cache / "backoff").glob("*.json")))
            await ask(other)
            await first
    times = sorted(asked.at for asked in server.asked)
    assert times[1] - times[0] >= 0.3


async def test_a_server_that_refuses_for_too_long_is_a_matter_of_infrastructure():
    with serving(good(), *[busy("0.05")] * 100) as server:
        async with client(server, retry={"seconds": 0.3}) as model:
            await ask(model)
            with pytest.raises(RateLimited, match=r"429.*model\.retry\.seconds") as caught:
                await ask(model)
            assert caught.value.retryable
            asked = len(server.asked)
            assert 3 <= asked <= 8
            with pytest.raises(RateLimited):  # the next row does not wait as long again
                await ask(model)
            assert len(server.asked) <= asked + 2


async def test_a_pause_longer_than_our_patience_is_not_waited_for():
    with serving(busy("3600")) as server:
        async with client(server) as model:
            began = time.monotonic()
            for _ in range(3):
                with pytest.raises(RateLimited, match="for another 3600 s"):
                    await ask(model)
            assert time.monotonic() - began < 2
    assert len(server.asked) == 1


async def test_no_credit_is_no_matter_of_waiting():
    with serving(error(429, "You exceeded your current quota", code="insufficient_quota")) as server:
        async with client(server) as model:
            with pytest.raises(ModelError, match="exceeded your current quota") as caught:
                await ask(model)
    assert not caught.value.retryable
    assert "no credit" in caught.value.hint


# --- what only a person can mend -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (UNKNOWN_MODEL, "models of this server: other, tiny-2"),
        (Step(404, "no such page"), "models of this server: other, tiny-2"),
        (error(400, "temperature must be non-negative", param="temperature"), "model.omit"),
        (error(400, "Invalid model name passed in model=tiny"), "models of this server"),
        (error(401, "Unauthorized"), "model.api_key_env"),
        (Step(401, {"error": "Unauthorized"}), "model.api_key_env"),
        (error(403, "forbidden"), "may not do this"),
        (error(422, "unknown field seed"), "model.omit"),
        (
            error(400, "max_tokens=16384 cannot be greater than max_model_len=4096. Please request fewer output "
                  "tokens.", param="max_tokens"),
            "max_tokens of the agent's sampling",
        ),
    ],
    ids=["unknown-model", "no-page", "400", "400-model", "401", "401-text", "403", "422", "max_tokens"],
)  # fmt: skip
async def test_a_permanent_error_is_sent_once_and_says_what_to_do(step, hint):
    with serving(step, models=[{"id": "other"}, {"id": "tiny-2"}]) as server:
        async with client(server) as model:
            with pytest.raises(ModelError) as caught:
                await ask(model)
    assert len(server.asked) == 1
    assert not caught.value.retryable
    assert not isinstance(caught.value, ContextOverflow)
    assert f"{server.url} (model tiny) answered {step.status}" in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("refusal", [error(400, "cannot parse message 7"), error(422, "bad content")])
async def test_a_refusal_by_a_server_that_answers_others_is_of_that_conversation(refusal):
    with serving(good("fine"), refusal, good("fine")) as server:
        async with client(server) as model:
            await ask(model)
            with pytest.raises(ModelError) as caught:
                await ask(model)
            await ask(model)
    assert caught.value.retryable
    assert len(server.asked) == 3


async def test_a_secret_in_an_error_is_taken_out(monkeypatch):
    monkeypatch.setenv("MY_SERVER_KEY", "very-secret-value-1")
    with serving(error(401, "key very-secret-value-1 is unknown")) as server:
        async with client(server, api_key_env="MY_SERVER_KEY") as model:
            with pytest.raises(ModelError) as caught:
                await ask(model)
    assert server.asked[0].headers["authorization"] == "Bearer very-secret-value-1"
    assert "very-secret-value-1" not in str(caught.value)


# --- too long --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dialect", OVERFLOWS)
async def test_an_overflow_is_one_request_whatever_the_dialect(dialect):
    with serving(OVERFLOWS[dialect], OVERFLOWS[dialect]) as server:
        async with client(server) as model:
            with pytest.raises(ContextOverflow) as caught:
                await ask(model)
    assert len(server.asked) == 1
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "text", ["context manager is missing", "your prompt is too vague", "the length of stop exceeds 4", "bad role: long"]
)
async def test_other_refusals_are_no_overflow(text):
    with serving(error(400, text)) as server:
        async with client(server) as model:
            with pytest.raises(ModelError) as caught:
                await ask(model)
    assert not isinstance(caught.value, ContextOverflow)


# --- slow, dead and gone ---------------------------------------------------------------------------------------------
async def test_a_slow_answer_is_not_asked_for_twice():
    with serving(Step(body=completion(), delay_s=0.6)) as server:
        async with client(server, timeout_s=0.15) as model:
            with pytest.raises(ModelError, match=r"no answer in 0\.15 s \(model\.timeout_s\); it is not asked again"):
                await ask(model)
            await asyncio.sleep(0.1)
    assert len(server.asked) == 1


async def test_a_server_that_never_answered_is_given_up_soon():
    with serving() as server:
        url = server.url
    async with client(url, retry={"attempts": 3, "seconds": 60}) as model:
        began = time.monotonic()
        with pytest.raises(ModelError, match="cannot be reached") as caught:
            await asyncio.gather(*(ask(model) for _ in range(20)))
        assert time.monotonic() - began < 2
        assert "base_url" in caught.value.hint
        assert caught.value.retryable


async def test_a_server_that_restarts_is_waited_for():
    with serving(good("one"), DEATH) as server:
        async with client(server, retry={"attempts": 2, "max_s": 0.1}) as model:
            assert (await ask(model)).text == "one"
            waiting = asyncio.create_task(ask(model))
            await asyncio.sleep(0.4)
            assert not waiting.done()
            with serving(good("two"), port=server.port):
                assert (await waiting).text == "two"


async def test_a_dead_server_is_given_up_after_its_time_and_then_at_once():
    with serving(good("one"), DEATH) as server:
        async with client(server, retry={"seconds": 0.3}) as model:
            await ask(model)
            with pytest.raises(ModelError, match="given up"):
                await ask(model)
            began = time.monotonic()
            with pytest.raises(ModelError, match="given up"):
                await ask(model)
            assert time.monotonic() - began < 0.2


async def test_a_cancelled_request_gives_its_place_to_the_next():
    with serving(good(), Step(body=completion("late"), delay_s=0.3)) as server:
        async with client(server, concurrency=1) as model:
            await ask(model)
            first = asyncio.create_task(ask(model))
            queued = asyncio.create_task(ask(model))
            third = asyncio.create_task(ask(model))
            await until(lambda: len(server.asked) == 2)
            queued.cancel()
            first.cancel()
            assert (await third).text == "ok"
            assert model._servers.all[0].lanes.busy == 0


# --- several servers -------------------------------------------------------------------------------------------------
async def test_all_candidates_of_an_instance_share_a_server():
    with serving() as one, serving() as two:
        async with client(one, two) as model:
            for group in map(str, range(16)):
                for _ in range(3):
                    await ask(model, group, group=group)
    at = [{asked.messages[0]["content"] for asked in server.asked} for server in (one, two)]
    assert at[0] & at[1] == set()
    assert len(at[0] | at[1]) == 16
    assert all(at)


async def test_a_dead_servers_requests_go_to_the_next_until_it_is_back():
    with serving() as one, serving() as two:
        async with client(one, two, retry={"max_s": 0.3, "base_s": 0.2}) as model:
            await ask(model)
            home, other = (one, two) if one.asked else (two, one)
            home.close()
            for _ in range(4):
                await ask(model)
            assert len(other.asked) == 4
            with serving(port=home.port) as again:
                await asyncio.sleep(0.35)
                await ask(model)
                assert len(again.asked) == 1


# --- answers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("step", "text", "finish"),
    [
        (good("yes"), "yes", "stop"),
        (good("half", "length"), "half", "length"),
        (good(None), "", "stop"),
        (good("yes", reasoning_content="long thoughts"), "yes", "stop"),
        (good(None, reasoning_content="only thoughts"), "", "stop"),
        (good(None, refusal="I will not"), "I will not", "stop"),
        (good([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]), "ab", "stop"),
        (good("yes", "eos_token"), "yes", "stop"),
        (good("yes", "function_call"), "yes", "tool_calls"),
        (good("aaaa", "repetition"), "aaaa", "length"),
        (tool_call("{}", "stop"), "", "tool_calls"),
    ],
)
async def test_what_an_answer_says(step, text, finish):
    with serving(step) as server:
        async with client(server) as model:
            reply = await ask(model)
    assert (reply.text, reply.finish_reason, reply.model) == (text, finish, "tiny")


async def test_an_unknown_cost_is_unknown_and_stops_nothing():
    with serving(Step(body={key: value for key, value in completion().items() if key != "usage"})) as server:
        async with client(server) as model:
            assert (await ask(model)).usage == Usage(calls=1)
            assert (await ask(model)).usage == Usage(calls=1, prompt_tokens=100, completion_tokens=10)


# --- the window ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("models", "window"),
    [
        ([{"id": "tiny", "max_model_len": 4096}], 4096),
        ([{"id": "x", "max_model_len": 1}, {"id": "tiny", "max_model_len": 4096}], 4096),
        ([{"id": "base", "max_model_len": 2048}, {"id": "tiny", "max_model_len": None, "parent": "base"}], 2048),
        ([{"id": "/models/file.gguf", "meta": {"n_ctx_train": 32768, "n_ctx": 16384}}], 16384),
        ([{"id": "tiny", "context_window": 131072}], 131072),
        ([{"id": "tiny"}], None),
        ([{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}], None),
        ([], None),
    ],
)
async def test_the_window_is_what_the_server_says(models, window):
    with serving(models=models) as server:
        async with client(server) as model:
            assert [await model.window(), await model.window("CODE_FIX", "planner")] == [window, window]
        assert server.others == ["/v1/models"]
        async with client(server, context_tokens=512) as model:
            assert await model.window() == 512
        assert server.others == ["/v1/models"]


async def test_a_window_that_could_not_be_asked_for_is_asked_for_again():
    with serving() as server:
        url, port = server.url, server.port
    async with client(url) as model:
        assert await model.window() is None
        with serving(port=port):
            assert await model.window() == 4096
