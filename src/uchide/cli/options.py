"""Options that several commands share, and how an experiment is named on the command line."""

import os
from pathlib import Path
from typing import Annotated

import typer

from uchide.errors import ConfigError
from uchide.paths import Root, find_root

RootOption = Annotated[
    Path | None, typer.Option("--root", help="The checkout to use; by default the one around the working directory.")
]
ExperimentArgument = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="An experiment file, or the name of one in experiments/.")
]


def experiment_file(root: Root, given: str) -> Path:
    """The file that EXPERIMENT names. Raises ConfigError listing what there is."""
    path = Path(given)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        candidates = [path, root.path / path]
    else:
        candidates = [root.experiments / f"{given}.yaml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    known = ", ".join(sorted(item.stem for item in root.experiments.glob("*.yaml"))) or "none"
    raise ConfigError(f"there is no experiment {given!r}", hint=f"in {root.experiments}: {known}")


def root_and_file(root: Path | None, given: str) -> tuple[Root, Path]:
    found = find_root(root)
    return found, experiment_file(found, given)


def argument(text: str) -> str:
    """An argument as the UTF-8 it was given as: in the C locale Python reads its bytes as something else."""
    return os.fsencode(text).decode("utf-8", "replace")


def read_ids(path: Path) -> tuple[str, ...]:
    """Instance ids, one per line; blank lines and lines that start with # are skipped. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--ids-file {path} cannot be read: {error}") from error
    ids = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not ids:
        raise ConfigError(f"--ids-file {path} names no instance")
    return tuple(ids)
