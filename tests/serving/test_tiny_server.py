"""Agents against a real server: llama.cpp's, with a tiny model that has learned one repair by heart.

One training for all action formats. What is proved is the way from the agent over HTTP to the server and back, the
formats as a model writes them, and that the same conversation is met again word for word.
"""

import asyncio
from collections.abc import Iterator

import pytest

from uchide import llm
from uchide.agents import trajectory
from uchide.sandboxes import provider

from . import case, server, tiny_model

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(
        not tiny_model.SERVE_PYTHON.exists(), reason="there is no .venv-serve: `make serve-env` makes it"
    ),
]
AGENTS = {
    **{name: tiny_model.phases(name) for name in tiny_model.TEXT_FORMATS},
    "blueprint": tiny_model.blueprint("tool_call"),
}


@pytest.fixture(scope="module")
def tiny(mini: case.Case) -> tiny_model.Tiny:
    return asyncio.run(tiny_model.make(mini, AGENTS, provider("bwrap"), mini.folder / "tiny"))


@pytest.fixture(scope="module")
def llama(tiny: tiny_model.Tiny) -> Iterator[server.Server]:
    with tiny_model.serve(tiny) as running:
        yield running


@pytest.mark.parametrize("name", AGENTS)
async def test_a_model_on_a_server_resolves_the_instance(mini: case.Case, tiny, llama, name):
    model = llm.create({"name": "openai", "base_url": llama.base_url, "model": "tiny"})
    before = llama.metric("llamacpp:tokens_predicted_total")
    candidate = await mini.rollout(AGENTS[name], model, provider("bwrap"), name)
    await model.aclose()
    assert candidate.exit_status == "completed"
    assert candidate.format_errors == 0
    assert candidate.patch == tiny.candidates[name].patch
    assert candidate.suite == tiny.candidates[name].suite
    assert (await mini.grade(candidate, provider("bwrap"))).category == "resolved"
    # It was this server that said it, and it counted as we did.
    assert candidate.turns == tiny.candidates[name].turns
    assert candidate.usage.calls == tiny.candidates[name].usage.calls >= candidate.turns
    assert llama.metric("llamacpp:tokens_predicted_total") - before == candidate.usage.completion_tokens > 0
    header = next(trajectory.read(mini.folder / "trajectories" / f"{name}.jsonl.zst"))
    assert header.model == "openai/tiny"
