"""The report of an experiment: `summary.json`, tables, `summary.md` and a self-contained page."""

from pathlib import Path

from uchide.report.inputs import ArmInputs, ArtifactRef, ReportInputs, StageTime
from uchide.report.linked import link
from uchide.report.summary import ArmSummary, Summary, summarise, summarise_arms, to_json

__all__ = ["ArmInputs", "ArmSummary", "ArtifactRef", "ReportInputs", "StageTime", "Summary", "build", "summarise"]


def build(inputs: ReportInputs, out: Path) -> Summary:
    """Write the report of `inputs` into the folder `out`, which is made when it is missing, and return its numbers.

    Files: `summary.json`, `summary.md`, `index.html`, `tables/<name>.csv` and `.parquet`. The same inputs give the
    same bytes. Raises ReportError when rows do not belong together or a trajectory cannot be read.
    """
    # Heavy imports (agents, jinja2, pyarrow) that somebody who only wants a summary's model need not wait for.
    from uchide.report.page import trajectory_loader, write_job_summary, write_page
    from uchide.report.tables import write_tables
    from uchide.report.view import view_page

    arms = link(inputs)
    summary = summarise_arms(inputs, arms)
    load = trajectory_loader(inputs, sum(len(arm.candidates) for arm in arms))
    view = view_page(inputs, arms, summary, load)
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.json").write_text(to_json(summary), encoding="utf-8")
    write_tables(arms, out / "tables")
    write_job_summary(view, out / "summary.md")
    write_page(view, out / "index.html")
    return summary
