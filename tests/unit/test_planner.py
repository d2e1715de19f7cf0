"""What a plan takes in besides the experiment file."""

from pathlib import Path

import pytest

from uchide import agents
from uchide.agents.phases.spec import BUILT_IN
from uchide.errors import ConfigError
from uchide.paths import Root
from uchide.pipeline.controller import check_components
from uchide.pipeline.planner import plan_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rollouts(tmp_path, monkeypatch):
    """Plan an experiment whose agent section is given; the configurations of its rollout jobs by job name."""
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "x.yaml"

    def plan(agent: str) -> dict[str, dict]:
        path.write_text(f"name: x\ndataset: {{name: mini, limit: 1}}\nruns: 1\n{agent}\n")
        jobs = plan_experiment(Root(ROOT, tmp_path / "artifacts"), path).plan.jobs
        return {name: dict(job.config) for name, job in jobs.items() if job.kind.label == "bench-generate"}

    return plan


def test_files_of_an_agents_own_decide_the_key_and_are_read_once(tmp_path, rollouts, monkeypatch):
    spec, prompt = tmp_path / "mine.yaml", tmp_path / "prompts/code_fix.md"
    spec.write_text(BUILT_IN.read_text())
    prompt.parent.mkdir()
    prompt.write_text("Mend it.\n")
    agent = f"agent: {{name: phases, spec: {spec}}}"
    before = rollouts(agent)
    assert rollouts(agent) == before
    ((_, config),) = before.items()
    assert config["agent"]["spec"]["prompts"] == {"code_fix.md": "Mend it.\n"}

    prompt.write_text("Mend it well.\n")
    edited = rollouts(agent)
    assert edited.keys() != before.keys()
    in_an_arm = rollouts(f"arms: {{main: {{agent: {{name: phases, spec: {spec}}}}}}}")
    assert in_an_arm == edited
    spec.write_text(spec.read_text() + "limits: {steps: 3}\n")
    assert rollouts(agent).keys().isdisjoint({*before, *edited})

    monkeypatch.setenv("MY_API_KEY", "kept-out-of-every-file-1")
    prompt.write_text("Use kept-out-of-every-file-1.\n")
    with pytest.raises(ConfigError, match="holds a secret") as caught:
        rollouts(agent)
    assert "kept-out" not in str(caught.value)


@pytest.mark.parametrize("options", ["", ", spec: {spec}"])
def test_a_folder_of_skills_is_read_when_planning_with_and_without_a_spec(tmp_path, rollouts, options, monkeypatch):
    spec, skill = tmp_path / "mine.yaml", tmp_path / "my-skills/mine.md"
    spec.write_text(BUILT_IN.read_text())
    skill.parent.mkdir()
    skill.write_text("---\ntitle: Mine\nphases: [CODE_FIX]\n---\nDo it.\n")
    agent = f"agent: {{name: phases, skills: {skill.parent}{options.format(spec=spec)}}}"
    before = rollouts(agent)
    ((_, config),) = before.items()
    assert config["agent"]["skills"] == {"files": {str(skill): skill.read_text()}}
    assert agents.create(config["agent"]).name == "phases"
    assert rollouts(f"arms: {{main: {{{agent}}}}}") == before

    skill.write_text(skill.read_text() + "Do it well.\n")
    assert rollouts(agent).keys().isdisjoint(before)
    monkeypatch.setenv("MY_API_KEY", "kept-out-of-every-file-1")
    skill.write_text(skill.read_text() + "kept-out-of-every-file-1\n")
    with pytest.raises(ConfigError, match=r"my-skills.* holds a secret"):
        rollouts(agent)


def test_the_default_agent_is_named_and_nothing_else(rollouts):
    ((_, config),) = rollouts("").items()
    assert config["agent"] == {"name": "phases"}


def test_only_an_agent_that_asks_for_the_datasets_lists_reads_hidden_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "x.yaml"
    arms = "arms: {main: {}, given: {agent: {name: blueprint, dataset_p2p: true}}}"
    path.write_text(f"name: x\ndataset: {{name: mini, limit: 1}}\nruns: 1\n{arms}\n")
    jobs = plan_experiment(Root(ROOT, tmp_path / "artifacts"), path).plan.jobs
    reads = {job.config["arm"]: set(job.inputs) for job in jobs.values() if job.kind.label == "bench-generate"}
    assert reads == {"main": {"public", "test"}, "given": {"public", "test", "hidden"}}


@pytest.fixture
def pooled(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "x.yaml"

    def plan(pools: str):
        arms = "arms: {a: {}, b: {agent: {name: phases, limits: {steps: 9}}}}"
        path.write_text(f"name: x\ndataset: {{name: mini, limit: 1}}\nruns: 2\n{arms}\n{pools}\n")
        return plan_experiment(Root(ROOT, tmp_path / "artifacts"), path).plan.jobs

    return plan


def test_a_pool_selects_over_the_candidates_of_its_arms_and_changes_nothing_else(pooled):
    without, jobs = pooled(""), pooled("pools: {both: [a, b]}")
    assert {name for name in without if not name.startswith(("report", "tts-"))} <= set(jobs)
    tts = [job for job in jobs.values() if job.config.get("arm") == "both"]
    assert sorted(job.kind.kind for job in tts) == ["grade", "matrix", "pick"]
    matrix = next(job for job in tts if job.kind.kind == "matrix")
    assert sorted(source.part for source in matrix.inputs["generate"]) == [
        f"generate.{arm}.r0{run}_s100{run}.s000" for arm in "ab" for run in (1, 2)
    ]
    assert set(without) & {name for name in jobs if name.startswith(("tts-matrix", "tts-pick"))} == {
        name for name in without if name.startswith(("tts-matrix", "tts-pick"))
    }


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ("{a: [a, b]}", "there is an arm of this name"),
        ("{both: [a, c]}", "there is no arm 'c'"),
        ("{both: [a]}", "at least two"),
        ("{both: [a, a]}", "at least two"),
    ],
)
def test_wrong_pools_are_explained(pooled, pools, message):
    with pytest.raises(ConfigError, match=message):
        pooled(f"pools: {pools}")


@pytest.mark.parametrize(
    "model", ["", "model: {name: openai, base_url: 'http://x/v1', model: m, for: {IMPLEMENT: {name: mutator}}}"]
)
def test_the_mutator_is_refused_for_another_agent_before_anything_runs(tmp_path, monkeypatch, model):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    path, root = tmp_path / "x.yaml", Root(ROOT, tmp_path / "artifacts")
    path.write_text(f"name: x\ndataset: {{name: mini, limit: 1}}\nruns: 1\nagent: blueprint\n{model}\n")
    with pytest.raises(ConfigError, match="arm main: the model mutator plays the agent phases only, not blueprint"):
        check_components(plan_experiment(root, path).plan, root)
