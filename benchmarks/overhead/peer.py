"""The peer's side: its default agent with a scripted model, run by the interpreter of its own environment.

Usage: python peer.py STEPS FOLDER. Prints a JSON list with the seconds of each step, commands left out.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml
from bare import Bare, Clock, command
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.exceptions import Submitted
from minisweagent.models.utils.actions_text import format_observation_messages, parse_regex_actions
from pydantic import BaseModel

SETTINGS = yaml.safe_load((Path(builtin_config_dir) / "default.yaml").read_text())


class ModelConfig(BaseModel):
    model_name: str = "scripted"
    observation_template: str = SETTINGS["model"]["observation_template"]
    format_error_template: str = SETTINGS["model"]["format_error_template"]


class Model:
    """Answers from a script; parses and formats with the peer's own functions."""

    def __init__(self, clock: Clock, steps: int) -> None:
        self.config = ModelConfig()
        self.clock = clock
        self.steps = steps
        self.step = 0

    def query(self, messages: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        self.clock.tick()
        self.step += 1
        text = command(self.step) if self.step <= self.steps else "end"
        content = f"THOUGHT: step {self.step}\n\n```mswea_bash_command\n{text}\n```"
        actions = parse_regex_actions(
            content,
            action_regex=r"```mswea_bash_command\s*\n(.*?)\n```",
            format_error_template=self.config.format_error_template,
        )
        return {"role": "assistant", "content": content, "extra": {"actions": actions, "cost": 0.0}}

    def format_message(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        return kwargs

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        return format_observation_messages(
            outputs, observation_template=self.config.observation_template, template_vars=template_vars
        )

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"model": self.config.model_dump(mode="json")}}}


class Environment:
    """The bare executor."""

    def __init__(self, bare: Bare, folder: str) -> None:
        self.bare = bare
        self.folder = folder

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        if action["command"] == "end":
            raise Submitted({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}})
        code, output = self.bare.run(("/bin/bash", "-c", action["command"]), self.folder, os.environ)
        return {"output": output.decode("utf-8", "replace"), "returncode": code, "exception_info": ""}

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"system": "Linux", **os.environ}

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"environment": {}}}}


def main() -> None:
    steps, folder = int(sys.argv[1]), sys.argv[2]
    bare = Bare()
    clock = Clock(bare, [])
    agent = DefaultAgent(
        Model(clock, steps),
        Environment(bare, folder),
        system_template="You repair software.",
        instance_template="Task: {{ task }}",
        cost_limit=0,
        output_path=Path(folder) / "run.traj.json",
    )
    agent.run("benchmark")
    print(json.dumps(clock.steps()))


main()
