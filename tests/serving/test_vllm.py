"""The same agents against `vllm serve` on the CPU, with the flags of a GPU node; run by hand:

    .venv/bin/python -m pytest -m slow tests/serving/test_vllm.py -s

It needs `make serve-env`, and makes an environment with vLLM in the cache the first time (minutes, 3.5 GB).
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from uchide import llm
from uchide.errors import ContextOverflow, ModelError
from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message, Sampling
from uchide.sandboxes import provider

from . import case, prefixes, server, tiny_model, vllm_server

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]
AGENTS = {
    **{name: tiny_model.phases(name) for name in (*tiny_model.TEXT_FORMATS, "native")},
    "blueprint": tiny_model.blueprint("native"),
}
METRICS = (
    "prompt_tokens_total generation_tokens_total prefix_cache_queries_total prefix_cache_hits_total"
    " num_requests_running num_requests_waiting kv_cache_usage_perc num_preemptions_total request_success_total"
)
LONG = 4000
"""Tokens of an answer that takes seconds."""


@pytest.fixture(scope="module")
def tiny(mini: case.Case) -> tiny_model.Tiny:
    return asyncio.run(tiny_model.make(mini, AGENTS, provider("bwrap"), mini.folder / "tiny-native"))


@pytest.fixture(scope="module")
def home() -> Path:
    began = time.monotonic()
    home = vllm_server.environment()
    print(f"environment with vLLM: {time.monotonic() - began:.0f} s")
    return home


@pytest.fixture(scope="module")
def vllm(home: Path, tiny: tiny_model.Tiny) -> Iterator[server.Server]:
    log = tiny.folder / "vllm.log"
    with vllm_server.serve(home, tiny.folder, log, "--shutdown-timeout", "120", VLLM_SERVER_DEV_MODE="1") as running:
        print(f"vLLM answers after {running.start_s:.0f} s")
        yield running


def model_of(running: server.Server, **options: Any) -> ChatModel:
    return llm.create({"name": "openai", "base_url": running.base_url, "model": "tiny", **options})


async def ask(model: ChatModel, text: str = "hello", *, group: str = "", **sampling: Any) -> ChatReply:
    try:
        return await model.complete(ChatRequest([Message("user", text)], Sampling(**sampling), group=group))
    finally:
        await model.aclose()


@pytest.mark.parametrize("name", AGENTS)
async def test_a_model_on_vllm_resolves_the_instance(mini: case.Case, tiny, vllm, name):
    model = model_of(vllm)
    before = vllm.metric("vllm:generation_tokens_total")
    candidate = await mini.rollout(AGENTS[name], model, provider("bwrap"), f"vllm-{name}")
    await model.aclose()
    assert candidate.exit_status == "completed"
    assert candidate.format_errors == 0
    assert candidate.patch == tiny.candidates[name].patch
    assert (await mini.grade(candidate, provider("bwrap"))).category == "resolved"
    assert vllm.metric("vllm:generation_tokens_total") - before == candidate.usage.completion_tokens > 0
    assert candidate.usage.cached_tokens is not None


@pytest.mark.parametrize("name", ["tool_bash", "native", "blueprint"])
async def test_the_prefix_cache_finds_nearly_all_there_is_to_find(mini: case.Case, vllm, name):
    vllm.post("/reset_prefix_cache")
    model = prefixes.Logged(model_of(vllm))
    before = [vllm.metric(f"vllm:prefix_cache_{kind}_total") for kind in ("queries", "hits")]
    await mini.rollout(AGENTS[name], model, provider("bwrap"), f"prefix-{name}")
    await model.aclose()
    after = [vllm.metric(f"vllm:prefix_cache_{kind}_total") for kind in ("queries", "hits")]
    asked, hits = (now - then for now, then in zip(after, before, strict=True))
    possible = prefixes.achievable(vllm, model.log, vllm_server.BLOCK)
    print(
        f"{name}: {len(model.log)} requests, {asked:.0f} prompt tokens, {hits:.0f} from the cache ({hits / asked:.1%});"
        f" {possible} were possible ({hits / possible:.1%})"
    )
    assert hits >= 0.95 * possible > 0


async def test_its_metrics_have_the_names_we_rely_on(vllm):
    assert all(vllm.metric(f"vllm:{name}") >= 0 for name in METRICS.split())


async def test_a_prompt_that_is_too_long_is_a_context_overflow(vllm):
    assert await model_of(vllm).window() == vllm_server.CONTEXT
    with pytest.raises(ContextOverflow, match="maximum context length is 8192"):
        await ask(model_of(vllm), "word " * vllm_server.CONTEXT)


async def test_an_answer_that_can_never_fit_is_no_context_overflow(vllm):
    with pytest.raises(ModelError, match="max_tokens") as caught:
        await ask(model_of(vllm), max_tokens=vllm_server.CONTEXT + 1)
    assert not isinstance(caught.value, ContextOverflow)
    assert not caught.value.retryable


async def test_an_unknown_model_is_named_with_those_there_are(vllm):
    with pytest.raises(ModelError, match="other") as caught:
        await ask(model_of(vllm, model="other"))
    assert not caught.value.retryable
    assert "tiny" in str(caught.value)


async def test_a_temperature_it_refuses_is_not_asked_again(vllm):
    with pytest.raises(ModelError, match="temperature") as caught:
        await ask(model_of(vllm), temperature=-1.0)
    assert not caught.value.retryable


async def test_it_seeds_sampling(vllm):
    hot = {"temperature": 1.5, "max_tokens": 30}
    first, again, other = [await ask(model_of(vllm), seed=seed, **hot) for seed in (1, 1, 2)]
    assert first.text == again.text != other.text


async def in_flight(running: server.Server, model: ChatModel, group: str = "") -> asyncio.Task[ChatReply]:
    """A long answer on its way."""
    task = asyncio.create_task(ask(model, group=group, max_tokens=LONG))
    for _ in range(600):
        await asyncio.sleep(0.05)
        if running.metric("vllm:num_requests_running"):
            break
    await asyncio.sleep(0.5)
    assert not task.done(), task.result()
    return task


LONG_BODY = {"extra_body": {"ignore_eos": True}}


async def test_an_answer_cut_off_by_sigterm_is_asked_of_the_next_server(home, tiny):
    """What a cluster does at the end of a job's time: SIGTERM, and SIGKILL half a minute later. vLLM answers 200 with
    half a text and finish_reason `abort`; or its engine is gone before it can say so, and the request hangs until the
    SIGKILL. Both were seen."""
    with vllm_server.serve(home, tiny.folder, tiny.folder / "vllm-2.log") as first, tiny_model.serve(tiny) as second:
        model = llm.create(
            {"name": "openai", "base_url": [first.base_url, second.base_url], "model": "tiny", **LONG_BODY}
        )
        task = await in_flight(first, model, group=await group_of(first, second))
        before, began = second.metric("llamacpp:tokens_predicted_total"), time.monotonic()
        await asyncio.to_thread(server.stop, first.process, 30.0)
        reply = await task
        seen = "its abort" if reply.usage.calls == 2 else "the lost connection"
        print(
            f"answered by the next server {time.monotonic() - began:.1f} s after SIGTERM, after {seen}: {reply.usage}"
        )
        assert reply.finish_reason == "length"
        assert second.metric("llamacpp:tokens_predicted_total") - before == LONG
        assert reply.usage.completion_tokens >= LONG


async def group_of(first: server.Server, second: server.Server) -> str:
    """A group whose requests go to `first`: those of half of all groups do."""
    for number in range(50):
        before = second.metric("llamacpp:tokens_predicted_total")
        for _ in range(2):
            model = llm.create({"name": "openai", "base_url": [first.base_url, second.base_url], "model": "tiny"})
            await ask(model, group=f"g{number}", max_tokens=3)
        if second.metric("llamacpp:tokens_predicted_total") == before:
            return f"g{number}"
    raise AssertionError("no group goes to this server")


async def test_with_a_shutdown_timeout_sigterm_lets_answers_finish(vllm):
    """Last, since it ends the server."""
    task = await in_flight(vllm, model_of(vllm, **LONG_BODY))
    began = time.monotonic()
    vllm.process.terminate()
    reply = await task
    print(f"finished {time.monotonic() - began:.1f} s after SIGTERM")
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens == LONG
    assert await asyncio.to_thread(vllm.process.wait, 60) == 0
