"""Stage prepare: trees, environments and hidden tests of every instance."""

from pathlib import Path

import typer

from uchide.pipeline.stages import collect as parts
from uchide.pipeline.stages import prepare_hidden, prepare_public
from uchide.pipeline.stages.reuse import execute_reuse
from uchide.pipeline.worker import execute

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def public(spec: Path) -> None:
    """What agents may see."""
    execute(spec, prepare_public)


@app.command()
def hidden(spec: Path) -> None:
    """What only graders see."""
    execute(spec, prepare_hidden)


@app.command()
def collect(spec: Path) -> None:
    """List the parts."""
    execute(spec, parts)


@app.command()
def reuse(spec: Path) -> None:
    """Check an earlier artifact and link it in."""
    execute_reuse(spec)


if __name__ == "__main__":
    app()
