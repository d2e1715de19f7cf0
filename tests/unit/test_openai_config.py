"""What an experiment file may say about models: options, `for`, `record`, and what is told about a wrong one."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from support.fault_server import good, serving
from support.openai import ask, options

from uchide import agents, llm
from uchide.agents.places import ROLES, places_of, refuse_unknown_places
from uchide.errors import ConfigError
from uchide.llm.openai.config import OpenAIConfig, Price
from uchide.records import Usage

HERE = {"name": "openai", "base_url": "http://localhost:8000/v1", "model": "tiny"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))


def refusal(config):
    with pytest.raises(ConfigError) as caught:
        llm.create(config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"modle": "x"}, ["model.modle: unknown option", "did you mean 'model'?"]),
        ({"price": {"input": 1, "output": 2, "cashed": 1}}, ["model.price.cashed", "did you mean 'cached'?"]),
        ({"retry": {"tries": 3}}, ["model.retry.tries", "options: attempts, seconds, base_s, max_s"]),
        ({"price": {"input": -1, "output": 2}}, ["model.price.input", "greater than or equal to 0"]),
        ({"price": {"input": 1}}, ["model.price.output: openai needs it"]),
        ({"base_url": []}, ["model.base_url"]),
        ({"base_url": "http://host:99999/v1"}, ["model.base_url", "Port out of range"]),
        ({"base_url": "http://host:port/v1"}, ["model.base_url", "Port"]),
        ({"base_url": "http://host:0/v1"}, ["model.base_url", "port 0"]),
        ({"base_url": "http://[::1/v1"}, ["model.base_url"]),
        ({"base_url": "http://my host/v1"}, ["model.base_url", "without spaces"]),
        ({"base_url": "http://höst/v1"}, ["model.base_url", "ASCII"]),
        ({"base_url": "localhost:8000/v1"}, ["model.base_url", "begins with http://"]),
        ({"base_url": "http://me:hunter22@host/v1"}, ["model.base_url", "must not hold a password", "api_key_env"]),
        ({"base_url": ["http://a/v1", "http://a/v1/"]}, ["named twice"]),
        ({"timeout_s": "soon"}, ["model.timeout_s"]),
        ({"extra_body": {"day": date(2026, 1, 1)}}, ["model.extra_body", "cannot be sent as JSON"]),
        ({"extra_body": {"top_p": float("nan")}}, ["model.extra_body", "cannot be sent as JSON"]),
        ({"extra_body": {"stop": ["\ud800"]}}, ["model.extra_body", "cannot be sent as JSON"]),
        ({"concurrency": 0}, ["model.concurrency"]),
        ({"omit": ["sead"]}, ["model.omit.0"]),
        ({"api_key": "sk-verysecretindeed000"}, ["model.api_key", "api_key_env"]),
        ({"api_key_env": "MY_SERVER"}, ["model.api_key_env", "must say that it is secret"]),
        ({"api_key_env": "NOT_SET_API_KEY"}, ["NOT_SET_API_KEY is not set"]),
        ({"for": ["CODE_FIX"]}, ["model.for: a mapping"]),
        ({"for": {"CODE_FIX": 3}}, ["model.for.CODE_FIX: a mapping"]),
        ({"for": {"CODE_FIX.": {}}}, ["model.for.CODE_FIX."]),
        ({"for": {"a.b.c": {}}}, ["model.for.a.b.c"]),
        ({"for": {"CODE_FIX": {"record": "x"}}}, ["model.for.CODE_FIX: 'record' belongs to the model as a whole"]),
        ({"for": {"CODE_FIX": {"modle": "x"}}}, ["model.for.CODE_FIX: model.modle", "did you mean 'model'?"]),
        ({"for": {"planner": {"name": "opneai"}}}, ["model.for.planner: ", "Did you mean 'openai'?"]),
        ({"record": 3}, ["model.record: the path of a folder"]),
    ],
)
def test_a_wrong_option_is_told_with_what_is_right(more, told, monkeypatch):
    monkeypatch.delenv("NOT_SET_API_KEY", raising=False)
    said = refusal(HERE | more)
    for text in told:
        assert text in said, said
    assert "verysecret" not in said
    assert "hunter22" not in said


@pytest.mark.parametrize("key", ["schlüssel-123456", "two\nlines-123456", "tab\tinside-123456", "\u200bcopied-123456"])
def test_a_key_that_no_header_can_hold_is_told_without_it(key, monkeypatch):
    monkeypatch.setenv("ODD_API_KEY", key)
    said = refusal(HERE | {"api_key_env": "ODD_API_KEY"})
    assert "the value of ODD_API_KEY has other signs than ASCII ones" in said
    assert "123456" not in said


@pytest.mark.parametrize("missing", ["base_url", "model"])
def test_what_cannot_be_guessed_is_asked_for(missing):
    said = refusal({key: value for key, value in HERE.items() if key != missing})
    assert f"model.{missing}: openai needs it" in said


@pytest.mark.parametrize("name", ["opanai", "gpt", None])
def test_an_unknown_name_is_told_with_the_known_ones(name):
    said = refusal({"name": name})
    assert "there is no model" in said
    assert "openai" in said


def test_a_url_is_taken_with_and_without_a_slash_and_as_one_or_several():
    assert OpenAIConfig.read({"base_url": "http://a/v1/", "model": "m"}).base_url == ("http://a/v1",)
    assert OpenAIConfig.read({"base_url": ["http://a/v1", "http://b/v1"], "model": "m"}).base_url[1] == "http://b/v1"


def test_the_price_of_cached_tokens():
    usage = Usage(calls=1, prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=600_000)
    assert Price(input=3.0, output=15.0, cached=0.3).of(usage) == pytest.approx(0.4 * 3 + 0.6 * 0.3 + 7.5)
    assert Price(input=3.0, output=15.0).of(usage) == pytest.approx(3 + 7.5)
    assert Price(input=3.0, output=15.0, cached=0.3).of(Usage(prompt_tokens=1_000_000)) == pytest.approx(3)
    assert OpenAIConfig.read({"base_url": "http://a", "model": "m"}).cost(usage) is None


def test_making_a_model_imports_no_client_and_asks_nobody():
    code = (
        "import sys; from uchide import llm\n"
        f"llm.create({HERE!r})\n"
        "print(sorted({'openai', 'httpx2', 'pandas'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


# --- for -------------------------------------------------------------------------------------------------------------
async def test_the_most_specific_override_answers_and_its_window_counts():
    with serving() as server:
        config = options(server) | {
            "for": {
                "CODE_FIX": {"model": "strong", "context_tokens": 9000},
                "formatter": {"model": "small", "context_tokens": 1000},
                "CODE_FIX.formatter": {"model": "strong-small"},
                "summary": {},
            }
        }
        model = llm.create(config)
        for place, role in [
            ("VERIFY_PATCH", "planner"),
            ("CODE_FIX", "planner"),
            ("VERIFY_PATCH", "formatter"),
            ("CODE_FIX", "formatter"),
            ("CODE_FIX", "summary"),
        ]:
            await ask(model, place=place, role=role)
        windows = [await model.window(*where) for where in (("", "agent"), ("CODE_FIX", "planner"), ("X", "formatter"))]
        await model.aclose()
    assert [asked.body["model"] for asked in server.asked] == ["tiny", "strong", "small", "strong-small", "tiny"]
    assert windows == [4096, 9000, 1000]
    assert model.name == "openai/tiny+openai/strong+openai/small+openai/strong-small"


async def test_another_name_starts_afresh():
    model = llm.create(HERE | {"for": {"FREE": "mutator", "CODE_FIX": {"name": "mutator", "mutants": 5}}})
    assert model.tools == ("try_edits",)
    assert await model.window("FREE") is None
    await model.aclose()


async def test_equal_configurations_share_one_client():
    with serving(*[good()] * 3) as server:
        model = llm.create(options(server) | {"for": {"A": {}, "B": {"model": "tiny"}}})
        for place in "ABC":
            await ask(model, place=place)
        assert model.name == "openai/tiny"
        assert len(server.connections) == 1
        await model.aclose()


@pytest.mark.parametrize("key", ["CODE_FIX", "formatter", "CODE_FIX.formatter", "VERIFY", "FREE", "agent"])
def test_a_phase_a_node_or_a_role_of_any_arm_may_be_named(key):
    arms = [{}, {"mechanisms": {"phases": False}}, {"name": "blueprint"}]
    places = set().union(*(places_of(agents.create(arm)) for arm in arms))
    refuse_unknown_places([key], places)


@pytest.mark.parametrize(
    ("key", "guess"), [("CODE_FIXX", "CODE_FIX"), ("formater", "formatter"), ("CODE_FIX.x", ""), ("VERIFY.agent", "")]
)
def test_another_place_is_refused(key, guess):
    with pytest.raises(ConfigError, match=f"model.for.{key}: no agent of this experiment") as caught:
        refuse_unknown_places([key], places_of(agents.create({})))
    assert f"did you mean '{guess}'?" in caught.value.hint or not guess


def test_every_role_that_an_agent_asks_in_is_known():
    used = set()
    for path in Path(agents.__file__).parent.rglob("*.py"):
        used |= set(re.findall(r'^ROLE(?:: Final)? = "(\w+)"', path.read_text(), re.MULTILINE))
    assert {"formatter", "summary"} <= used <= set(ROLES)


# --- keys ------------------------------------------------------------------------------------------------------------
def test_where_a_model_runs_and_how_patiently_it_is_asked_are_part_of_no_key():
    settings = {"base_url": "http://b/v1", "api_key_env": "B_API_KEY", "timeout_s": 5.0, "connect_timeout_s": 1.0}
    settings |= {"concurrency": 3, "retry": {"attempts": 2}, "gpus": 8.0}
    assert llm.keyed({**HERE, **settings, "record": "x"}) == {"name": "openai", "model": "tiny"}
    assert set(settings) < set(OpenAIConfig.model_fields)
    rest = {"omit": ["seed"], "extra_body": {"top_k": 1}, "price": {"input": 1, "output": 1}, "context_tokens": 999}
    assert llm.keyed({**HERE, **rest}) == {"name": "openai", "model": "tiny", **rest}
    inner = {"A": {"base_url": "http://c/v1", "model": "m"}, "B": {"name": "mutator", "retry": 1}, "C": "mutator"}
    assert llm.keyed({**HERE, "for": inner})["for"] == {**inner, "A": {"model": "m"}}
    assert llm.keyed({"name": "mutator", "mutants": 7}) == {"name": "mutator", "mutants": 7}
