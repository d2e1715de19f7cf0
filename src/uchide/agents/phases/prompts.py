"""From the spec and the state of a rollout to the messages a model reads."""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import TemplateNotFound, TemplateSyntaxError

from uchide.actions import FORMATS, ActionFormat
from uchide.agents.issue import environment, render_issue
from uchide.agents.observation import shorten
from uchide.agents.phases.share import SHARE, Share
from uchide.agents.phases.spec import BUILT_IN, PhaseSpec, PhasesSpec
from uchide.errors import ConfigError
from uchide.patches.git import ROOT
from uchide.protocols import Message, Task
from uchide.tools import tool_paths

MEMO_CHARS = 12_000
LISTED_FILES = 200


@dataclass(frozen=True)
class ToolLine:
    command: str
    about: str


@cache
def tool_line(name: str) -> ToolLine:
    """How a tool is called and the first line of its docstring."""
    path = tool_paths(name)[0]
    source = path / "__main__.py" if path.is_dir() else path
    about = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return ToolLine(f"python $UCHIDE_TOOLS/{path.name}", about.partition("\n")[0])


def header(task: Task, spec: PhasesSpec, name: str, visit: int, tools: Sequence[str]) -> str:
    """The documented machine-readable first line of every system prompt."""
    phase = spec.phases[name]
    data = {
        "schema": 1,
        "phase": name,
        "visit": visit,
        "run": task.run,
        "share": SHARE,
        "root": ROOT,
        "due": list(phase.due),
        "tools": list(tools),
        "action_format": spec.action_format,
        "instance_id": task.instance.instance_id,
        "steps": len(phase.workflow),
        "turns": phase.turns,
        "next": {"complete": phase.on_complete, "giveup": phase.on_giveup},
    }
    return "UCHIDE-HEADER " + json.dumps(data, ensure_ascii=True)


class Prompts:
    """The templates of one spec; a user's own (name -> text) come before the built-in ones."""

    def __init__(self, spec: PhasesSpec, own: Mapping[str, str] | None = None) -> None:
        self._templates = environment(BUILT_IN.parent / "prompts", own)
        self._spec = spec
        self.format: ActionFormat = FORMATS[spec.action_format]
        for name, phase in spec.phases.items():
            self._check(name, phase.prompt)

    def _check(self, name: str, prompt: str) -> None:
        try:
            self._templates.get_template(prompt)
        except TemplateNotFound as error:
            raise ConfigError(f"phases.{name}.prompt: there is no prompt {error.name!r}") from error
        except TemplateSyntaxError as error:
            raise ConfigError(f"{error.filename or error.name}:{error.lineno}: {error.message}") from error

    def _render(self, template: str, **values: Any) -> str:  # noqa: ANN401 (template values)
        return self._templates.get_template(template).render(share=SHARE, root=ROOT, **values).rstrip("\n")

    def opening(self, task: Task, name: str, visit: int, tools: Sequence[str], share: Share) -> list[Message]:
        """The messages a conversation begins with: the phase's prompt, then the issue and the durable artifacts."""
        phase: PhaseSpec = self._spec.phases[name]
        system = self._render(
            "system.md",
            name=name,
            visit=visit,
            phase=phase,
            run=task.run,
            example=self.format.example,
            tools=[tool_line(tool) for tool in tools],
        )
        memos = [{"phase": memo, "text": shorten(text, MEMO_CHARS)} for memo, text in share.memos(self._spec.phases)]
        user = self._render(
            "instance.md", issue=render_issue(task.instance.issue), memos=memos, files=share.listing()[:LISTED_FILES]
        )
        first = header(task, self._spec, name, visit, tools)
        return [Message("system", f"{first}\n{system}"), Message("user", user)]

    def format_error(self, reason: str, phase: PhaseSpec) -> str:
        return self._render(
            "format_error.md", reason=reason, example=self.format.example, last_step=len(phase.workflow) - 1
        )

    def rejected(self, token: str, missing: Sequence[str]) -> str:
        return self._render("rejected.md", token=token, missing=missing)

    def memo_request(self, name: str, exit_kind: str, following: str) -> str:
        return self._render("memo_request.md", name=name, exit=exit_kind, next=following)

    def handover_request(self, name: str) -> str:
        return self._render("handover_request.md", name=name)

    def repeat_warning(self, times: int) -> str:
        return self._render("repeat_warning.md", times=times)
