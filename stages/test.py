"""Stage test: does every instance behave as its row says?"""

from pathlib import Path

import typer

from uchide.pipeline.stages import preflight as body
from uchide.pipeline.worker import execute

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def main() -> None:
    """Keep `preflight` a command of its own: typer drops the name of an only one."""


@app.command()
def preflight(spec: Path) -> None:
    """The gold patch resolves, the unpatched tree does not."""
    execute(spec, body)


if __name__ == "__main__":
    app()
