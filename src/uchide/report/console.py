"""The table at the end of `uchide run`, for a terminal (rich) and as plain lines."""

from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from uchide.report.summary import ArmSummary, Summary
from uchide.report.visible import one_line

Line = tuple[str, str, str]
"""What, how many instances, and a remark."""


def console_table(summary: Summary, page: Path) -> Group:
    """The results as a rich table and the path of the page; no text in them is read as rich markup."""
    table = Table(title=Text(one_line(summary.experiment)), title_justify="left", box=None)
    table.add_column("", no_wrap=True)
    table.add_column(f"resolved of {summary.n_instances}", justify="right")
    table.add_column("")
    for block in blocks(summary):
        for what, count, remark in block:
            style = "bold" if what == f"selected by {summary.selector}" else ""
            table.add_row(Text(what, style=style), Text(count, style=style), Text(remark, style="dim"))
        table.add_section()
    return Group(table, Text(f"report: {page}", no_wrap=True, overflow="ignore"))


def console_text(summary: Summary, page: Path) -> str:
    """The same as plain text, one fact per line, ending with the path of the page."""
    lines = [line for block in blocks(summary) for line in block]
    wide = max(len(what) for what, _, _ in lines)
    right = max(len(count) for _, count, _ in lines)
    rows = [f"{what:<{wide}}  {count:>{right}}  {remark}".rstrip() for what, count, remark in lines]
    title = f"{one_line(summary.experiment)}: resolved of {summary.n_instances}"
    return "\n".join([title, *rows, f"report: {page}"])


def blocks(summary: Summary) -> list[list[Line]]:
    if not summary.arms:
        return [arm_lines(summary)]
    return [[heading(name, arm), *arm_lines(arm)] for name, arm in summary.arms.items()]


def heading(name: str, arm: ArmSummary) -> Line:
    if arm.pool:
        return (f"pool {one_line(name)}", "", f"of {one_line(', '.join(arm.pool))}")
    return (f"arm {one_line(name)}", "", one_line(arm.differs))


def arm_lines(arm: ArmSummary) -> list[Line]:
    """Runs, mean, selectors with the part of the gap they close, oracle; infrastructure failures if there were any."""
    spread = f"{arm.pass_at_1.min} to {arm.pass_at_1.max}"
    lines = [(row.run, str(row.resolved), "") for row in arm.per_run]
    lines.append(("mean pass@1", f"{arm.pass_at_1.mean:.1f}", spread))
    lines += [
        (f"selected by {name}", str(count), gap_remark(arm.gap_closed[name])) for name, count in arm.selected.items()
    ]
    lines.append(("oracle", str(arm.oracle), "at least one run"))
    if arm.infra:
        lines.append(("infra failures", str(arm.infra), f"of {arm.k * arm.n_instances} candidates"))
    return lines


def gap_remark(gap: float | None) -> str:
    return "no gap to close" if gap is None else f"{100 * gap:.0f} % of the oracle gap closed"
