"""Renders the page and the job summary. Every text passes `visible`, then HTML escaping; no template can forget it."""

import re
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from uchide.records import Candidate
from uchide.report.inputs import ReportInputs
from uchide.report.trajectory import TrajectoryView, load_trajectory
from uchide.report.view import PageView
from uchide.report.view_instance import Load
from uchide.report.visible import visible

TRAJECTORY_CHARS = 3_800_000
"""Characters of trajectories on one page, shared by all candidates."""
MOST_PER_CANDIDATE, LEAST_PER_CANDIDATE = 40_000, 6_000
"""With more than about 600 candidates no share is worth reading, and the page names the phases only."""

MARKDOWN = re.compile(r"[&<>|`*\[\]()!#~\\@]|(?<![^\W_])_|_(?![^\W_])|:(?!\s)|(?<=www)\.")
"""Characters that GitHub's Markdown may read as markup: code, emphasis, links, mentions, references, emoji."""


def write_page(view: PageView, out: Path) -> None:
    """Write `out` (`index.html`): one file, no script, nothing fetched."""
    environment = make_environment()
    css = Markup((files("uchide.report") / "templates" / "style.css").read_text(encoding="utf-8"))
    template = environment.get_template("index.html.j2")
    template.stream(page=view, css=css).dump(str(out), encoding="utf-8")


def write_job_summary(view: PageView, out: Path) -> None:
    """Write `out` (`summary.md`), the text CI shows beside a job."""
    text = make_environment().get_template("summary.md.j2").render(page=view)
    out.write_text(text, encoding="utf-8", newline="\n")


def make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("uchide.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=show,
    )
    environment.filters |= {"seconds": seconds, "thousands": thousands, "percent": percent, "cell": markdown_cell}
    return environment


def show(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def trajectory_loader(inputs: ReportInputs, candidates: int) -> Load:
    """Finds the trajectory of a candidate, cut to an equal share of the page; None when there is none or no room."""
    share = min(MOST_PER_CANDIDATE, TRAJECTORY_CHARS // max(1, candidates))

    def load(candidate: Candidate) -> TrajectoryView | None:
        path = inputs.trajectories.get(candidate.candidate_id)
        if path is None or share < LEAST_PER_CANDIDATE:
            return None
        return load_trajectory(path, share)

    return load


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min"


def thousands(value: float) -> str:
    return f"{value:,}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def markdown_cell(value: object) -> Markup:
    """Text for a table cell of GitHub's Markdown: on one line and without any markup of its own."""
    text = " ".join(visible(str(value)).split())
    escaped = MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", text)
    return Markup(escaped)
