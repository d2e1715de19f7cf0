"""From the spec and the state to the messages a model reads: templates in `prompts/`, tools in the format's way."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateNotFound, TemplateSyntaxError

from uchide.actions import FORMATS, ActionFormat
from uchide.agents.blueprint.spec import BlueprintSpec
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.toolset import tool_specs
from uchide.agents.issue import environment
from uchide.agents.phases.prompts import tool_line
from uchide.errors import ConfigError
from uchide.patches.git import ROOT
from uchide.patches.suite import SHARE
from uchide.protocols import Message, Task

FOLDER = Path(__file__).parent / "prompts"


@cache
def _templates() -> Environment:
    return environment(FOLDER)


class Prompts:
    """The templates of one spec. Raises ConfigError for a template that is not there."""

    def __init__(self, spec: BlueprintSpec) -> None:
        self._spec = spec
        self.format: ActionFormat = FORMATS[spec.action_format]
        for name, node in spec.nodes.items():
            for template in (*((node.prompt,) if node.prompt else ()), *node.nudges.values()):
                _check(f"agent.nodes.{name}", template)

    def render(self, template: str, **values: Any) -> str:  # noqa: ANN401 (template values)
        """One template as text."""
        return _templates().get_template(template).render(share=SHARE, root=ROOT, **values).rstrip("\n")

    def opening(self, task: Task, state: AgentState, name: str, **values: Any) -> list[Message]:  # noqa: ANN401
        """What a node's conversation begins with; `values` are the prompt's own."""
        node = self._spec.nodes[name]
        specs = tool_specs(node.tools)
        system = self.render(
            "system.md",
            name=name,
            node=node,
            native=self.format.native,
            example=self.format.example,
            tools=[{"name": tool.name, "json": _tool_json(tool.name, specs)} for tool in specs],
            scripts=[tool_line(script) for script in node.scripts],
        )
        user = self.render(node.prompt, state=state, run=task.run, repro_file=repro_file(task), **values)
        if nudge := node.nudges.get(0):
            user = f"{user}\n\n{self.nudge(nudge, state, task)}"
        return [Message("system", f"{self._header(task, state, name)}\n{system}"), Message("user", user)]

    def nudge(self, template: str, state: AgentState, task: Task) -> str:
        return self.render(template, state=state, run=task.run, repro_file=repro_file(task))

    def _header(self, task: Task, state: AgentState, name: str) -> str:
        node = self._spec.nodes[name]
        data = {
            "schema": 1,
            "agent": "blueprint",
            "phase": name,
            "visit": state.visits.get(name, 0),
            "run": task.run,
            "share": SHARE,
            "root": ROOT,
            "tools": list(node.tools),
            "scripts": list(node.scripts),
            "action_format": self._spec.action_format,
            "instance_id": task.instance.instance_id,
            "turns": node.turns,
        }
        return "UCHIDE-HEADER " + json.dumps(data, ensure_ascii=True)


def repro_file(task: Task) -> str:
    """Where the tests for the issue are to stand, unless the repository keeps its tests elsewhere."""
    return f"tests/test_uchide_{task.run}.py"


def _tool_json(name: str, specs: Sequence[Any]) -> str:
    spec = next(one for one in specs if one.name == name)
    shown = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return json.dumps(shown, ensure_ascii=False)


def _check(where: str, template: str) -> None:
    try:
        _templates().get_template(template)
    except TemplateNotFound as error:
        raise ConfigError(f"{where}: there is no prompt {error.name!r}") from error
    except TemplateSyntaxError as error:
        raise ConfigError(f"{error.filename or error.name}:{error.lineno}: {error.message}") from error
