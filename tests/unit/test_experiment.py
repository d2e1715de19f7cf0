"""Experiment files: what is read, and one clear error for what cannot be."""

import json
from pathlib import Path

import jsonschema
import pytest

from uchide.errors import ConfigError
from uchide.paths import cache_dir, find_root
from uchide.pipeline.experiment import json_schema, load_experiment

ROOT = Path(__file__).parents[2]
LEAST = "name: x\ndataset: {name: mini}\n"


def read(tmp_path, text, **overrides):
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_experiment(path, overrides)


def test_defaults_and_short_forms(tmp_path):
    exp = read(
        tmp_path,
        LEAST + "model: {name: mutator, budget: 3}\narms: {a: {model: other}, b: {model: {name: mutator, k: 1}}}",
    )
    assert exp.runs == 8
    assert exp.runs_of_arm()[1] == ("r02_s1002", 1002)
    assert exp.agent.name == "phases"
    assert exp.model_of("a").model_dump() == {"name": "other"}
    assert exp.model_of("b").model_dump() == {"name": "mutator", "budget": 3, "k": 1}


def test_overrides_replace_or_merge(tmp_path):
    exp = read(tmp_path, LEAST, runs=2, dataset={"limit": 3})
    assert (exp.runs, exp.dataset.name, exp.dataset.limit) == (2, "mini", 3)


def test_text_that_looks_like_other_types_is_text_when_quoted(tmp_path):
    exp = read(
        tmp_path, LEAST + "title: 'no'\nagent: {name: a, mode: '0755', when: \"2024-01-01\", x: 1.5e3, y1: [1, -2]}"
    )
    assert exp.title == "no"
    assert exp.agent.model_dump() == {"name": "a", "mode": "0755", "when": "2024-01-01", "x": 1500.0, "y1": [1, -2]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LEAST + "selektion: {}\n", [":3:", "unknown key 'selektion'", "did you mean 'selection'"]),
        (LEAST + "selection:\n  weights:\n    bugs: 1\n", [":5:", "'selection.weights.bugs'", "mean 'bug'"]),
        (LEAST + "arms: {main: {modell: x}}\n", ["'arms.main.modell'", "mean 'model'"]),
        (LEAST + "selection: {matrix: {run: 1}}\n", ["'selection.matrix.run'", "mean 'runs'"]),
        (LEAST + "sandbox: docker\n", [":3:", "sandbox", "'bwrap'", '"docker"']),
        (LEAST + "runs: '8'\n", [":3:", "runs", "integer", '"8"']),
        (LEAST + "runs: 0\n", ["runs", "greater than or equal to 1"]),
        (LEAST + "runs: true\n", ["runs", "integer"]),
        (LEAST + "runs: 1e2\n", ["runs", "integer"]),
        (LEAST + "runs: 010\n", [":3:", "'010' is ambiguous", "octal"]),
        (LEAST + "runs: 0x10\n", ["'0x10' is ambiguous", "decimal"]),
        (LEAST + "title: no\n", [":3:", "'no' is ambiguous", "true or false"]),
        (LEAST + "title: True\n", ["'True' is ambiguous"]),
        (LEAST + "title: 1:30\n", ["'1:30' is ambiguous", "quote it"]),
        (LEAST + "title: 2024-01-01\n", ["a date"]),
        (LEAST + "title: .nan\n", ["'.nan'"]),
        (LEAST + "name: y2\n", [":3:", "'name' stands here and in line 1"]),
        (LEAST + "1: x\n", [":3:", "not text"]),
        (LEAST + "? [a]\n: x\n", ["not text"]),
        (LEAST + "a: &a {}\nb: {<<: *a}\n", ["merge keys"]),
        (LEAST + "title: !!python/object:os.system x\n", ["tag"]),
        (LEAST + "title: !mine x\n", ["tag"]),
        (LEAST + "title: [x\n", [":4:"]),
        (LEAST + "\tx: y\n", [":3:", "cannot start any token"]),
        (LEAST + "---\nname: z\n", ["document"]),
        (LEAST + "title: \x00\n", ["not YAML"]),
        (
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
            ["alias repeated too often"],
        ),
        ("&r\nname: *r\n", ["nested too deep"]),
        ("name: x\n", [":1:", "dataset is missing"]),
        ("name: x\ndataset: {}\n", [":2:", "dataset.name is missing"]),
        ("name: X y\ndataset: {name: mini}\n", ["name", "pattern"]),
        ("name: ../x\ndataset: {name: mini}\n", ["name", "pattern"]),
        ("name: store\ndataset: {name: mini}\n", [":1:", "name", "choose another name"]),
        ("- x\n", ["a mapping"]),
        ("", ["a mapping"]),
        (b"name: \xff\n", ["not UTF-8 (byte 6)"]),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", ["git lfs pull"]),
        (LEAST + "reuse: {tts: x}\n", ["reuse.tts", "'prepare' or 'bench'"]),
        (LEAST + "arms: {}\n", ["arms", "at least 1"]),
        (LEAST + "arms: {a-b: {}}\n", ["arms.a-b", "pattern"]),
        (LEAST + "selection: {selectors: [first, best]}\n", ["selection.selectors.1", '"best"']),
        (LEAST + "selection: {selectors: [first, first]}\n", ["name each selector once"]),
        (LEAST + "agent: {model: x}\n", ["agent.name is missing"]),
        (LEAST + "agent: 3\n", ["agent", "(got 3)"]),
    ],
)
def test_wrong_files_are_explained(tmp_path, text, says):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert "x.yaml" in message
    for words in says:
        assert words in message
    assert len(message) < 600


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"nope\.yaml does not exist"):
        load_experiment(tmp_path / "nope.yaml")


def test_schema_file_is_what_the_models_say():
    path = ROOT / "workflow/schemas/experiment.schema.json"
    assert json.loads(path.read_text()) == json_schema(), "run: python -m uchide.pipeline.schema"


def test_schema_accepts_what_the_models_accept(tmp_path):
    schema = json_schema()
    jsonschema.validate(
        {"name": "x", "dataset": {"name": "mini"}, "agent": "phases", "arms": {"a": {"model": "m"}}}, schema
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "dataset": {"name": "mini"}, "runz": 1}, schema)


# --- paths -----------------------------------------------------------------------------------------------------------
def test_root_is_found_by_walking_up(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "uchide"\n')
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "other"\n')
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.delenv("UCHIDE_ARTIFACTS", raising=False)
    assert find_root().store == tmp_path / "artifacts" / "store"
    monkeypatch.setenv("UCHIDE_ARTIFACTS", str(tmp_path / "out"))
    assert find_root().artifacts == tmp_path / "out"
    with pytest.raises(ConfigError, match="is not a checkout"):
        find_root(tmp_path / "a")
    monkeypatch.chdir("/")
    with pytest.raises(ConfigError, match="--root"):
        find_root()


def test_cache_dir(monkeypatch):
    monkeypatch.delenv("UCHIDE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_dir() == Path("/x/uchide")
    monkeypatch.setenv("UCHIDE_CACHE", "/y")
    assert cache_dir() == Path("/y")


def ablation(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_text(f"name: x\ndataset: {{name: mini}}\n{text}\n")
    return load_experiment(path)


def test_switches_make_an_arm_each_and_keep_the_rest_of_the_agent(tmp_path):
    agent = "agent: {name: phases, limits: {steps: 9}, mechanisms: {handover: false}}"
    found = ablation(tmp_path, f"{agent}\nablate: {{switches: [skills, formatter]}}")
    assert {arm: found.agent_of(arm).model_dump()["mechanisms"] for arm in found.arms} == {
        "full": {"handover": False, "skills": True, "formatter": True},
        "no_skills": {"handover": False, "skills": False, "formatter": True},
        "no_formatter": {"handover": False, "skills": True, "formatter": False},
    }
    assert all(found.agent_of(arm).model_dump()["limits"] == {"steps": 9} for arm in found.arms)


def test_a_matrix_has_every_combination_of_the_switches(tmp_path):
    found = ablation(tmp_path, "ablate: {switches: [skills, tools, phases], matrix: true}")
    assert len(found.arms) == 8
    assert "no_skills_tools_phases" in found.arms
    states = {tuple(found.agent_of(arm).model_dump()["mechanisms"].values()) for arm in found.arms}
    assert len(states) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ablate: {switches: [skills]}\narms: {a: {}}", "give `arms` or `ablate`, not both"),
        ("ablate: {switches: []}", "ablate"),
        ("ablate: {switches: [skills], all: true}", "all"),
        ("ablate: {switches: [Skills]}", "ablate"),
    ],
)
def test_a_wrong_ablation_is_explained(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        ablation(tmp_path, text)


def test_an_arm_says_what_it_has_otherwise_than_the_first(tmp_path):
    found = ablation(
        tmp_path, "arms: {a: {}, b: {agent: {name: phases, limits: {steps: 9}}, model: {name: mutator, mutants: 5}}}"
    )
    assert found.differences() == {"a": "", "b": "agent.limits.steps: 9, model.mutants: 5"}
    found = ablation(tmp_path, "ablate: {switches: [skills, formatter]}")
    assert found.differences()["no_skills"] == "agent.mechanisms.skills: false"
