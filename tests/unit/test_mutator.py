"""The mutator as a chat model: a pure function of the conversation and the seed, in the phases agent's own terms."""

import json

import pytest

from uchide.actions import FORMATS, Call
from uchide.agents.phases.agent import create as create_agent
from uchide.errors import ConfigError, ModelError
from uchide.llm import create
from uchide.llm.mutator.playbook import playbook
from uchide.protocols import ChatModel, ChatRequest, Message, Sampling

PHASES = (
    "ISSUE_REPRODUCE",
    "TEST_SYNTHESIZE",
    "CODE_LOCALIZE",
    "TEST_LOCALIZE",
    "CODE_FIX",
    "VERIFY_PATCH",
    "ISSUE_CLOSE",
    "FINAL_REPORT",
)


def opening(phase: str, visit: int = 1) -> list[Message]:
    header = {"schema": 1, "phase": phase, "visit": visit, "share": "/share", "root": "/testbed", "run": "r01_s1001"}
    return [Message("system", f"UCHIDE-HEADER {json.dumps(header)}\nYou repair software."), Message("user", "Issue")]


async def answer(model: ChatModel, messages: list[Message], seed: int = 1001) -> str:
    return (await model.complete(ChatRequest(messages, Sampling(seed=seed)))).text


async def play(phase: str, codes: list[int | str], visit: int = 1, seed: int = 1001) -> list[str]:
    """The model's turns in one visit when its commands return these codes."""
    model, messages, said = create({"name": "mutator"}), opening(phase, visit), []
    for code in [*codes, None]:
        said.append(await answer(model, messages, seed))
        observation = f"<returncode>{code}</returncode>\n<output>\n</output>"
        messages = [*messages, Message("assistant", said[-1]), Message("user", observation)]
    return said


@pytest.mark.parametrize("phase", PHASES)
async def test_a_phase_that_goes_well_is_completed(phase: str) -> None:
    said = await play(phase, [step.expect[0] for step in playbook()[phase].steps])
    for turn in said[:-1]:
        assert turn.startswith("WORKFLOW: W")
        assert isinstance(FORMATS["tool_bash"].read(turn, ()), Call), turn
    assert said[-1].startswith("WORKFLOW: COMPLETE")
    assert "<tool" not in said[-1]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("code", [77, "timeout", "memory"])
async def test_a_command_that_fails_gives_the_phase_up_and_says_why(phase: str, code: int | str) -> None:
    said = await play(phase, [code])
    assert said[-1].startswith("WORKFLOW: GIVEUP")
    assert f"return code {code}" in said[-1]


def test_the_playbook_covers_the_built_in_phases() -> None:
    assert set(playbook()) == {*PHASES, "FREE"}
    assert create_agent({}).name == "phases"


async def test_the_seed_reaches_the_tools_and_nothing_else_differs() -> None:
    one, again, other = [await play("TEST_LOCALIZE", [], seed=seed) for seed in (1001, 1001, 1002)]
    assert one == again
    assert [turn.replace("1002", "1001") for turn in other] == one != other


async def test_a_later_visit_applies_the_next_survivor_without_searching_again() -> None:
    first, later = [await play("CODE_FIX", [], visit=visit) for visit in (1, 2)]
    assert "try_edits search" in first[0]
    assert "try_edits" not in later[0]
    assert "survivors[2 - 1]" in later[0]


async def test_an_answer_that_was_not_taken_ends_the_phase() -> None:
    messages = [*opening("CODE_FIX"), Message("assistant", "?"), Message("user", "Nothing was executed: two actions")]
    said = await answer(create({"name": "mutator"}), messages)
    assert said.startswith("WORKFLOW: GIVEUP")
    assert "two actions" in said


@pytest.mark.parametrize("prompt", ["You are helpful.", "UCHIDE-HEADER {oops", 'UCHIDE-HEADER {"phase": "DANCE"}'])
async def test_another_agents_prompt_is_one_error_that_no_retry_helps(prompt: str) -> None:
    with pytest.raises(ModelError, match="mutator cannot take part") as caught:
        await answer(create({"name": "mutator"}), [Message("system", prompt)])
    assert not caught.value.retryable


@pytest.mark.parametrize(("options", "words"), [({"mutants": 0}, "mutants"), ({"mutans": 5}, "mutans")])
def test_wrong_options_are_named(options: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        create({"name": "mutator", **options})
