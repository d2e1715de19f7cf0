"""Skills: short procedures that a phase's prompt teaches where its phase and tools allow (docs/skills.md).

Each is a Markdown file with front matter: `title`, `phases` (a list, or "*" for all) and `tools` that must be active.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError

from uchide.agents.limits import StrictModel
from uchide.agents.phases.spec import BUILT_IN, FREE
from uchide.errors import ConfigError
from uchide.tools import TOOL_FILES

FOLDER = BUILT_IN.parent / "skills"
_FENCE = "---"


@dataclass(frozen=True)
class Skill:
    """One procedure; `text` is Markdown."""

    title: str
    phases: tuple[str, ...] | Literal["*"]
    tools: tuple[str, ...]
    text: str

    def applies(self, phase: str, tools: Collection[str]) -> bool:
        """Whether a prompt of `phase` with these active tools shows it. The phase FREE counts as every phase."""
        return (self.phases == "*" or phase in (*self.phases, FREE)) and set(self.tools) <= set(tools)


class _Front(StrictModel):
    title: Annotated[str, Field(min_length=1)]
    phases: Literal["*"] | tuple[str, ...]
    tools: tuple[str, ...] = ()


@cache
def built_in() -> Mapping[str, Skill]:
    """Our own, by file name."""
    files = sorted(FOLDER.glob("*.md"))
    return {file.name: parse_skill(file.name, file.read_text("utf-8")) for file in files}


def with_own(own: Mapping[str, str], phases: Collection[str]) -> list[Skill]:
    """The built-in skills and a user's (path -> text), by file name; one of the same name replaces ours.

    Raises ConfigError for a file that is no skill, or that names a phase or tool there is not.
    """
    skills = dict(built_in())
    for path, text in own.items():
        skill = parse_skill(path, text)
        _known(path, text, "phases", () if skill.phases == "*" else skill.phases, (*phases, FREE))
        _known(path, text, "tools", skill.tools, tuple(TOOL_FILES))
        skills[Path(path).name] = skill
    return [skills[name] for name in sorted(skills)]


def parse_skill(path: str, text: str) -> Skill:
    """A skill from the text of the file `path`. Raises ConfigError naming file and line."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise _error(path, 1, f"a skill begins with front matter: a line `{_FENCE}`")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise _error(path, len(lines), f"the front matter is not closed with a line `{_FENCE}`")
    front = _front(path, "\n".join(lines[1:end]), text)
    body = "\n".join(lines[end + 1 :]).strip("\n")
    if not body.strip():
        raise _error(path, end + 1, "the skill has no text")
    return Skill(front.title, front.phases, front.tools, body)


def _front(path: str, source: str, text: str) -> _Front:
    try:
        data = yaml.safe_load(source)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise _error(path, line, f"not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise _error(path, 2, f"not YAML: {error}") from error
    if not isinstance(data, dict):
        raise _error(path, 2, "`title:`, `phases:` and `tools:` are expected")
    try:
        return _Front.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        message = 'a list of phases, or "*" for all, is expected' if key == "phases" and key in data else first["msg"]
        raise _error(path, _line_of(text, key), f"{key}: {message}") from error


def _known(path: str, text: str, key: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise _error(path, _line_of(text, key), f"{key}: unknown {name!r}, {hint}")


def _line_of(text: str, key: str) -> int:
    """Line of a key of the front matter; the first where it is missing."""
    return next((number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"{key}:")), 1)


def _error(path: str, line: int, message: str) -> ConfigError:
    return ConfigError(f"{path}:{line}: {message}", hint="docs/skills.md shows a skill that is right")
