"""The configuration of the blueprint agent: what is taken, and one clear error for what cannot be."""

import pytest

from uchide import agents
from uchide.errors import ConfigError
from uchide.pipeline.experiment import load_experiment


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"action_format": "tool_bash"}, "knows no tool but bash; this agent takes"),
        ({"action_format": "morse"}, "'morse' is unknown"),
        ({"nodes": {"IMPLEMENT": {"tools": ["telepathy"]}}}, "unknown tool 'telepathy'"),
        ({"nodes": {"IMPLEMENT": {"scripts": ["telepathy"]}}}, "unknown script 'telepathy'"),
        ({"nodes": {"IMPLEMENT": {"prompt": "absent.md"}}}, "there is no prompt 'absent.md'"),
        ({"nodes": {"IMPLEMENT": {"nudges": {5: "absent.md"}}}}, "there is no prompt 'absent.md'"),
        ({"nodes": {"IMPLEMENT": {"compression": {"after": 3, "keep": 3}}}}, "must be smaller"),
        ({"nodes": {"VERIFY": {"edges": {"regressed": "END"}}}}, "nodes.VERIFY.edges: the code"),
        ({"nodes": {"VERIFY": {"edges": {"bored": "END"}}}}, "nodes.VERIFY.edges: the code"),
        ({"nodes": {"VERIFY": {"turns": 3}}}, "nodes.VERIFY: holds no conversation"),
        ({"nodes": {"IMPLEMENT": {"turns": 0}}}, "nodes.IMPLEMENT: needs turns"),
        ({"nodes": {"THINK": {"edges": {}}}}, "'THINK' is unknown"),
        ({"attempts": 0}, "agent.attempts"),
        ({"attempts": True}, "agent.attempts"),
        ({"tokens": 3}, "agent.tokens"),
    ],
)
def test_a_wrong_configuration_is_one_clear_error(options, says):
    with pytest.raises(ConfigError) as caught:
        agents.create({"name": "blueprint", **options})
    assert says in caught.value.message


def test_an_experiment_may_mix_both_agents_as_arms(tmp_path):
    path = tmp_path / "mixed.yaml"
    path.write_text(
        "name: mixed\ndataset: {name: mini}\nruns: 2\narms:\n  phases: {agent: phases}\n"
        "  blueprint: {agent: {name: blueprint, action_format: tool_call, attempts: 3}}\n"
        "pools: {both: [phases, blueprint]}\n"
    )
    experiment = load_experiment(path)
    made = {arm: agents.create(experiment.agent_of(arm).model_dump()) for arm in experiment.arms}
    assert {arm: agent.name for arm, agent in made.items()} == {"phases": "phases", "blueprint": "blueprint"}
