"""Text on its way to a terminal: whatever agents, models or files put in it, it shows and does nothing else."""

import typer

from uchide.report.visible import one_line, visible


def safe(text: str) -> str:
    """Text with control bytes and hidden characters made visible; newlines and tabs stay."""
    return visible(text)


def say(text: str = "", *, err: bool = False) -> None:
    """Print a message of ours that may hold text of others."""
    typer.echo(safe(text), err=err)


def table(rows: list[list[str]], *, head: list[str] | None = None) -> str:
    """Columns, left-aligned; every cell on one line."""
    cells = [[one_line(cell) for cell in row] for row in ([head] if head else []) + rows]
    if not cells:
        return ""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """`45 s`, `3 min`, `2 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
