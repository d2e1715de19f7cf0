"""Stage report: numbers, tables and the page."""

from pathlib import Path

import typer

from uchide.pipeline.stages import report as body
from uchide.pipeline.worker import execute

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def main() -> None:
    """Keep `build` a command of its own: typer drops the name of an only one."""


@app.command()
def build(spec: Path) -> None:
    """Write the report."""
    execute(spec, body)


if __name__ == "__main__":
    app()
