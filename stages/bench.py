"""Stage bench: rollouts and their verdicts."""

from pathlib import Path

import typer

from uchide.pipeline.stages import bench_generate, bench_grade
from uchide.pipeline.stages import collect as parts
from uchide.pipeline.stages.reuse import execute_reuse
from uchide.pipeline.worker import execute

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def generate(spec: Path) -> None:
    """One rollout per instance of a shard."""
    execute(spec, bench_generate)


@app.command()
def grade(spec: Path) -> None:
    """A verdict per candidate."""
    execute(spec, bench_grade)


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
