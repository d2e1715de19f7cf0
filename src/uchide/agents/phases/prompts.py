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
from uchide.agents.phases.journal import Step
from uchide.agents.phases.share import SHARE, Share
from uchide.agents.phases.skills import Skill
from uchide.agents.phases.spec import BUILT_IN, PhaseSpec, PhasesSpec
from uchide.agents.phases.turns import BASH
from uchide.errors import ConfigError
from uchide.patches.git import ROOT
from uchide.protocols import Message, Task, ToolSpec
from uchide.tools import tool_paths

MEMO_CHARS = 12_000
MIN_MEMO_CHARS = 500
EARLIER_CHARS = 4_000
"""Of an earlier memo that a summary of our own replaces."""
LISTED_FILES = 200
DRAFT = "tool_bash"
"""The spelling shown to a planner whose formatter calls API tools."""
_HEADER = "UCHIDE-HEADER "


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


def header(task: Task, spec: PhasesSpec, name: str, visit: int, tools: Sequence[str], form: str) -> str:
    """The documented machine-readable first line of every system prompt. `form` is the action format to answer in."""
    phase = spec.phases[name]
    data = {
        "schema": 1,
        "role": spec.role,
        "phase": name,
        "visit": visit,
        "run": task.run,
        "share": SHARE,
        "root": ROOT,
        "due": list(phase.due),
        "tools": list(tools),
        "action_format": form,
        "instance_id": task.instance.instance_id,
        "steps": len(phase.workflow),
        "turns": phase.turns,
        "next": {"complete": phase.on_complete, "giveup": phase.on_giveup},
    }
    return _HEADER + json.dumps(data, ensure_ascii=True)


class Prompts:
    """The templates of one spec; a user's own (name -> text) come before the built-in ones."""

    def __init__(self, spec: PhasesSpec, own: Mapping[str, str] | None = None, skills: Sequence[Skill] = ()) -> None:
        self._templates = environment(BUILT_IN.parent / "prompts", own)
        self._spec = spec
        self._skills = skills if spec.mechanisms.skills else ()
        self.format: ActionFormat = FORMATS[spec.action_format]
        # A planner writes into its text, also where the formatter's action goes through the API.
        in_text = spec.mechanisms.formatter and self.format.native
        self.draft: ActionFormat = FORMATS[DRAFT] if in_text else self.format
        for name, phase in spec.phases.items():
            self._check(name, phase.prompt)

    @property
    def format_tools(self) -> tuple[ToolSpec, ...]:
        """API tools of whoever writes actions."""
        return (BASH,) if self.format.native else ()

    @property
    def turn_tools(self) -> tuple[ToolSpec, ...]:
        """API tools of a conversation."""
        return (BASH,) if self.draft.native else ()

    def _check(self, name: str, prompt: str) -> None:
        try:
            self._templates.get_template(prompt)
        except TemplateNotFound as error:
            raise ConfigError(f"phases.{name}.prompt: there is no prompt {error.name!r}") from error
        except TemplateSyntaxError as error:
            raise ConfigError(f"{error.filename or error.name}:{error.lineno}: {error.message}") from error

    def _render(self, template: str, **values: Any) -> str:  # noqa: ANN401 (template values)
        common = {
            "share": SHARE,
            "root": ROOT,
            "native": self.draft.native,
            "example": self.draft.example,
            "handover": self._spec.mechanisms.handover,
            "formatter": self._spec.mechanisms.formatter,
            "alone": len(self._spec.phases) == 1,
        }
        return self._templates.get_template(template).render(common | values).rstrip("\n")

    def opening(
        self,
        task: Task,
        name: str,
        visit: int,
        tools: Sequence[str],
        share: Share,
        *,
        room: int | None,
        sofar: str = "",
    ) -> list[Message]:
        """The messages a conversation begins with: the phase's prompt, then the issue and the durable artifacts.

        Memos take at most a third of `room`, the characters there are. `sofar` is what this visit did before, where
        no memo says it.
        """
        phase: PhaseSpec = self._spec.phases[name]
        skills = [skill for skill in self._skills if skill.applies(name, tools)]
        system = self._render(
            "system.md",
            name=name,
            visit=visit,
            phase=phase,
            run=task.run,
            active=tools,
            tools=[tool_line(tool) for tool in tools],
            skills=skills,
        )
        user = self._render(
            "instance.md",
            issue=render_issue(task.instance.issue),
            memos=self._memos(share, room),
            files=share.listing()[:LISTED_FILES],
            sofar=sofar,
        )
        first = header(task, self._spec, name, visit, tools, self.draft.name)
        return [Message("system", f"{first}\n{system}"), Message("user", user)]

    def _memos(self, share: Share, room: int | None) -> list[dict[str, str]]:
        memos = share.memos(self._spec.phases) if self._spec.mechanisms.handover else []
        limit = MEMO_CHARS
        if room is not None and memos:
            limit = min(MEMO_CHARS, max(MIN_MEMO_CHARS, room // 3 // len(memos)))
        return [{"phase": memo, "text": shorten(text, limit)} for memo, text in memos]

    def formatter(self, task: Task, name: str, visit: int) -> Message:
        """The formatter's system prompt, the same for all turns of a visit."""
        form = self.format
        data = {
            "schema": 1,
            "role": "formatter",
            "phase": name,
            "visit": visit,
            "run": task.run,
            "share": SHARE,
            "root": ROOT,
            "action_format": form.name,
            "instance_id": task.instance.instance_id,
        }
        text = self._render("formatter.md", native=form.native, example=form.example)
        return Message("system", f"{_HEADER}{json.dumps(data, ensure_ascii=True)}\n{text}")

    def format_error(self, reason: str, phase: PhaseSpec) -> str:
        return self._render("format_error.md", reason=reason, last_step=len(phase.workflow) - 1)

    def rejected(self, token: str, missing: Sequence[str]) -> str:
        return self._render("rejected.md", token=token, missing=missing)

    def memo_request(self, name: str, exit_kind: str, following: str) -> str:
        return self._render("memo_request.md", name=name, exit=exit_kind, next=following)

    def handover_request(self, name: str) -> str:
        return self._render("handover_request.md", name=name)

    def summary_request(self, name: str) -> str:
        return self._render("summary_request.md", name=name)

    def summary(self, steps: Sequence[Step], before: str) -> str:
        return self._render("summary.md", steps=steps, before=shorten(before, EARLIER_CHARS))

    def repeat_warning(self, times: int) -> str:
        return self._render("repeat_warning.md", times=times)

    def failure_warning(self, times: int, code: int | str) -> str:
        return self._render("failure_warning.md", times=times, code=code)
