"""Stage tts: cross-check matrix, picks, and the verdicts of the picks."""

from pathlib import Path

import typer

from uchide.pipeline.stages import collect as parts
from uchide.pipeline.stages import tts_grade, tts_matrix, tts_pick
from uchide.pipeline.worker import execute

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def matrix(spec: Path) -> None:
    """Every patch of an arm against every admitted suite."""
    execute(spec, tts_matrix)


@app.command()
def pick(spec: Path) -> None:
    """What every selector picks."""
    execute(spec, tts_pick)


@app.command()
def grade(spec: Path) -> None:
    """The verdicts of the picks."""
    execute(spec, tts_grade)


@app.command()
def collect(spec: Path) -> None:
    """List the parts."""
    execute(spec, parts)


if __name__ == "__main__":
    app()
