"""What a plan takes in besides the experiment file."""

from pathlib import Path

import pytest

from uchide.agents.phases.spec import BUILT_IN
from uchide.errors import ConfigError
from uchide.paths import Root
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


def test_the_default_agent_is_named_and_nothing_else(rollouts):
    ((_, config),) = rollouts("").items()
    assert config["agent"] == {"name": "phases"}
