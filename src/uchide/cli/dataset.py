"""`uchide dataset`: what is bundled, and whether a dataset can be read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uchide.cli.options import RootOption
from uchide.cli.text import plural, say, table
from uchide.errors import ConfigError

if TYPE_CHECKING:
    from uchide.datasets import Dataset

app = typer.Typer(help="List and check datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A bundled dataset, or the name of a kind of dataset together with a file.")]
File = Annotated[Path | None, typer.Argument(help="The dataset's file or folder; by default the bundled one.")]


def _load(name: str, path: Path | None, root: Path | None) -> "Dataset":
    from uchide import datasets
    from uchide.paths import find_root

    return datasets.load(name, path or find_root(root).path / "datasets" / name)


@app.command("ls")
def list_(root: RootOption = None) -> None:
    """List the bundled datasets."""
    from uchide import datasets
    from uchide.paths import find_root

    rows = []
    folder = find_root(root).path / "datasets"
    for name in [name for name in datasets.KINDS if (folder / name).is_dir()]:
        dataset = _load(name, None, root)
        held_out = sum(dataset.split(item) == "heldout" for item in dataset.ids)
        repos = len({dataset.repo(item) for item in dataset.ids})
        rows.append([name, str(len(dataset.ids)), str(repos), str(held_out), dataset.digest[:12]])
    say(table(rows, head=["dataset", "instances", "repositories", "held out", "digest"]))


@app.command()
def check(name: Name, path: File = None, root: RootOption = None) -> None:
    """Read a dataset whole; exit 1 with the first fault."""
    dataset = _load(name, path, root)
    say(f"{name}: {plural(len(dataset.ids), 'instance')}, digest {dataset.digest[:12]}")


@app.command()
def ids(
    name: Name,
    path: File = None,
    split: Annotated[str | None, typer.Option(help="train or heldout.")] = None,
    repo: Annotated[str | None, typer.Option(help="Only this repository.")] = None,
    root: RootOption = None,
) -> None:
    """Print instance ids, one per line, as `uchide run --ids-file` reads them."""
    dataset = _load(name, path, root)
    known = {"--split": (split, {"train", "heldout"}), "--repo": (repo, {dataset.repo(item) for item in dataset.ids})}
    for option, (asked, there) in known.items():
        if asked is not None and asked not in there:
            raise ConfigError(f"{option}: there is no {asked!r} in {name}", hint=f"known: {', '.join(sorted(there))}")
    for item in dataset.ids:
        if split in (None, dataset.split(item)) and repo in (None, dataset.repo(item)):
            say(item)
