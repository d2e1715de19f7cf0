"""The client against a server that fails in every way we know of: each has its documented outcome."""

import asyncio
import itertools
import json
import logging
import time
from contextlib import suppress
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
from uchide.llm.openai.config import Retry
from uchide.llm.openai.faults import Fault
from uchide.llm.openai.servers import Lanes, Server, SharedPause
from uchide.records import Usage


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- what passes by itself -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "fault",
    [
        error(500, "no text", headers={"Content-Type": "application/json; charset=base64"}),
        Step(200, "{", headers={"Content-Type": "application/json; charset=hex"}),
        Step(200, "[" * 200_000),
        Step(500, "[" * 200_000),
        Step(200, '{"error": {"message": ' + "[" * 500 + "]" * 500 + "}}"),
        Step(200, {"error": {"message": "x", "code": "9" * 5000}}),
        Step(200, {"error": {"message": "half a \ud83d pair", "code": [[]]}}),
        good("fine", prompt=-5),
        good("fine", prompt=10**400),
        error(503, "late", headers={"Retry-After": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}),
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


@pytest.mark.parametrize("wish", ["0", "-5", "Thu, 01 Jan 2015 00:00:00 GMT", "0.0", None])
async def test_a_server_that_wishes_no_pause_is_given_growing_ones(wish):
    with serving(*[busy(wish) if wish else busy()] * 200) as server:
        async with client(server, retry={"seconds": 1.0, "base_s": 0.1, "max_s": 9.0}) as model:
            with pytest.raises(RateLimited):
                await ask(model)
    gaps = [later.at - sooner.at for sooner, later in itertools.pairwise(server.asked)]
    assert 3 <= len(server.asked) <= 6
    assert all(gap >= 0.05 * 2**number for number, gap in enumerate(gaps))


def test_every_round_of_failures_counts_although_others_fail_all_the_time(tmp_path):
    """Requests that begin and fail in turn, each before the last failure of the others."""
    retry = Retry(attempts=3, base_s=1e-9)
    server = Server("a", retry, SharedPause(tmp_path / "pause"), Lanes(8))
    started = time.monotonic()
    for _ in range(6):
        following = time.monotonic()
        server.failed(Fault("connect", "down"), started)
        time.sleep(0.001)
        started = following
    assert server.rounds == 3
    assert server.given_up()


async def test_refusals_that_come_together_count_once():
    with serving(*[Step(429, {}, delay_s=0.1)] * 16) as server:
        async with client(server, retry={"base_s": 0.1, "max_s": 99.0}) as model:
            began = time.monotonic()
            await asyncio.gather(*(ask(model) for _ in range(16)))
            assert time.monotonic() - began < 3


async def test_time_in_the_queue_is_no_refusal():
    slow = Step(body=completion("ok"), delay_s=0.3)
    with serving(*[slow] * 4, busy("0.1"), *[slow] * 4) as server:
        async with client(server, concurrency=1, retry={"seconds": 0.6}) as model:
            replies = await asyncio.gather(*(ask(model) for _ in range(6)))
    assert [reply.text for reply in replies] == ["ok"] * 6


@pytest.mark.parametrize("fault", [Step(500, {}, delay_s=0.4), Step(body=completion("x"), reset=True, delay_s=0.4)])
async def test_time_in_which_a_server_is_at_work_is_no_failing(fault):
    with serving(fault, fault, good("fine")) as server:
        async with client(server, retry={"seconds": 0.3}) as model:
            assert (await ask(model)).text == "fine"
    assert len(server.asked) == 3


NONSENSE = {
    "huge": b'{"until": 1' + b"0" * 400 + b"}",
    "long": b'{"until": ' + b"1" * 5000 + b"}",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "nan": b'{"until": NaN}',
    "endless": b'{"until": Infinity}',
    "null": b'{"until": null}',
    "no-text": b"\xff\xfe",
    "empty": b"",
}


@pytest.mark.parametrize("kind", [*NONSENSE, "folder", "file-for-the-folder", "not-writable"])
async def test_nonsense_in_the_shared_pause_is_nobodys_trouble(kind, cache):
    with serving(busy("0.3"), good("fine")) as server:
        async with client(server) as model:
            path = model._servers.all[0].pause.path
            if kind == "file-for-the-folder":
                cache.mkdir()
                (cache / "backoff").write_text("x")
            elif kind == "not-writable":
                cache.parent.joinpath("cache").symlink_to("/proc/self")
            elif kind == "folder":
                path.mkdir(parents=True)
                (path / "inside").write_text("x")
            else:
                path.parent.mkdir(parents=True)
                path.write_bytes(NONSENSE[kind])
            assert (await ask(model)).text == "fine"
    first, second = server.asked
    assert 0.25 <= second.at - first.at < 2, "what the server told this job counts all the same"


async def test_a_long_pause_that_another_job_left_is_tried_once(cache):
    with serving() as server:
        async with client(server) as model:
            pause = model._servers.all[0].pause
            pause.path.parent.mkdir(parents=True)
            pause.path.write_text(json.dumps({"until": time.time() + 80_000}))
            replies = await asyncio.gather(*(ask(model) for _ in range(12)))
            assert [reply.text for reply in replies] == ["ok"] * 12
            assert model._servers.all[0].lanes.limit == 64
    pause.path.write_text(json.dumps({"until": time.time() + 80_000}))
    with serving(busy("80000"), port=server.port) as server:
        async with client(server) as model:
            results = await asyncio.gather(*(ask(model) for _ in range(12)), return_exceptions=True)
    assert {type(result) for result in results} == {RateLimited}
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
        (error(403, "forbidden"), "no key was sent: name the environment variable that holds it in model.api_key_env"),
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
    assert "the server refused the value of MY_SERVER_KEY" in caught.value.hint
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


async def test_an_answer_that_trickles_in_is_over_after_its_time():
    """Every byte comes in time, the answer does not."""

    async def trickle(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with client(url, timeout_s=0.3) as model:
        began = time.monotonic()
        with pytest.raises(ModelError, match=r"no answer in 0\.3 s \(model\.timeout_s\)"):
            await ask(model)
        assert time.monotonic() - began < 2
    server.close()


@pytest.mark.parametrize("step", [RESET, Step(200, "<html>a router's page</html>")])
async def test_what_may_be_no_model_server_is_asked_about(step):
    with serving(*[step] * 9) as server:
        async with client(server, retry={"attempts": 2}) as model:
            with pytest.raises(ModelError, match="given up") as caught:
                await ask(model)
    assert caught.value.hint == "is the server running, and is model.base_url right?"


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
            with pytest.raises(ModelError, match="given up") as caught:
                await ask(model)
            assert "base_url" in caught.value.hint
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
            model._catalogue._failed[f"{url}/"] -= 60  # as if a minute had passed
            assert await model.window() == 4096


async def test_a_server_without_a_list_of_models_is_asked_for_it_once_a_minute():
    with serving(models="no list") as server:
        async with client(server) as model:
            assert await asyncio.gather(*(model.window() for _ in range(20))) == [None] * 20
            assert server.others == ["/v1/models"]
            model._catalogue._failed[f"{server.url}/"] -= 60
            assert await model.window() is None
            assert server.others == ["/v1/models"] * 2
