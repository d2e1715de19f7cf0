"""The one rendering of an issue, the same for every agent."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined, Template

from uchide.records import Issue


def fence(text: str, language: str = "") -> str:
    """`text` as a Markdown code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip(chr(10))}\n{ticks}"


def environment(folder: Path, own: Mapping[str, str] | None = None) -> Environment:
    """Templates of a folder, `own` (name -> text) before them; an undefined name is an error. `fence` is a filter."""
    made = Environment(
        loader=ChoiceLoader([DictLoader(own or {}), FileSystemLoader(folder)]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    made.filters["fence"] = fence
    return made


@cache
def _template() -> Template:
    return environment(Path(__file__).parent / "templates").get_template("issue.md")


def render_issue(issue: Issue) -> str:
    """The issue as Markdown."""
    return _template().render(issue=issue).rstrip("\n")
