"""`uchide trajectory`: check, convert, read and compare trajectory files, ours and those of other projects."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from uchide.cli.options import RootOption
from uchide.cli.text import plural, say, table

app = typer.Typer(help="Check, convert, read and compare trajectories.", no_args_is_help=True)

Which = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE|FILE", help="A candidate's id, a file (also of another project), or what holds just one."
    ),
]
Instance = Annotated[
    str, typer.Option("--instance", "-i", metavar="ID", help="Which one, of a file that holds several.")
]
PATTERN = "trajectories/*.jsonl.zst"
SHOWN = 10
"""Files that an error lists."""


class To(StrEnum):
    """Formats we write."""

    MINI = "mini"
    ATIF = "atif"


@app.command()
def validate(
    which: Annotated[
        list[str],
        typer.Argument(metavar="WHICH...", help="Files, candidates' ids, artifacts, or experiments (all they hold)."),
    ],
    root: RootOption = None,
) -> None:
    """Check what holds of every trajectory of Uchide; exit 1 with one line per violation."""
    files = broken = unfinished = 0
    for path, is_finished in _files(which, root):
        wrong, told = _examine(path)
        if is_finished:
            wrong, told = wrong + told, []
        for line in wrong + told:
            say(f"{path}: {line}")
        files, broken, unfinished = files + 1, broken + bool(wrong), unfinished + bool(told)
    count = "1 trajectory" if files == 1 else f"{files} trajectories"
    said = f"{broken} broken" if broken else "all valid" if files > 1 else "valid"
    say(f"{count}: {said}" + (f", {unfinished} unfinished" if unfinished else ""))
    if broken:
        raise typer.Exit(1)


def _examine(path: Path) -> tuple[list[str], list[str]]:
    """What is wrong with a file; and in what way it is not finished, which a killed rollout's may be."""
    from uchide.agents.interop.invariants import violations
    from uchide.agents.trajectory import EndRecord, read
    from uchide.errors import StoreError

    notices: list[str] = []
    try:
        records = list(read(path, notices.append))
    except StoreError as error:
        return [error.message], []
    wrong = [f"record {item.record}: {item.message}" for item in violations(records)]
    told = [notice.removeprefix(f"{path}: ") for notice in notices]
    if records and isinstance(records[-1], EndRecord):
        return wrong + told, []
    return wrong, [*told, f"unfinished: no end record after {plural(len(records), 'record')}"]


def _files(which: list[str], root: Path | None) -> Iterator[tuple[Path, bool]]:
    """Trajectory files, and whether each belongs to a finished artifact: its rollout came to an end, then."""
    from uchide.errors import ConfigError
    from uchide.paths import find_root
    from uchide.store import Artifact
    from uchide.store.contents import chosen
    from uchide.store.manifest import MANIFEST

    for item in which:
        if Path(item).is_file():
            yield Path(item), False
            continue
        if of_id := _of_candidate(find_root(root).store, item):
            yield from ((path, (path.parents[1] / MANIFEST).is_file()) for path in of_id)
            continue
        found = [file for path in chosen(find_root(root), [item]) for file in _inside(Artifact(path))]
        if not found:
            raise ConfigError(f"{item} holds no trajectory", hint="they are made by the stage bench")
        yield from ((path, True) for path in dict.fromkeys(found))


def _one(item: str, root: Path | None) -> Path:
    """The only trajectory that is meant. Raises ConfigError for several."""
    from uchide.errors import ConfigError
    from uchide.store.manifest import MANIFEST

    path = Path(item)
    if path.is_dir():
        is_file = not (path / MANIFEST).is_file()  # the folder of an OpenHands conversation
    else:
        is_file = path.is_file() or "/" in item or path.suffix in (".json", ".jsonl", ".zst", ".traj")
    if is_file:
        return path
    found = [file for file, _ in _files([item], root)]
    if len(found) == 1:
        return found[0]
    shown = "".join(f"\n  {file}" for file in found[:SHOWN]) + ("\n  ..." if len(found) > SHOWN else "")
    raise ConfigError(f"{item} holds {len(found)} trajectories", hint=f"name a candidate's id, or one file of:{shown}")


def _of_candidate(root: Path, candidate_id: str) -> list[Path]:
    name = PATTERN.replace("*", candidate_id)
    return sorted(folder / name for folder in root.iterdir() if (folder / name).is_file()) if root.is_dir() else []


def _inside(artifact: object) -> Iterator[Path]:
    from uchide.store import Artifact

    if isinstance(artifact, Artifact):
        yield from sorted(artifact.path.glob(PATTERN))
        for child in artifact.children().values():
            yield from _inside(child)


@app.command()
def export(
    which: Which,
    to: Annotated[To, typer.Option("--to", help="The format: mini-swe-agent's .traj.json, or ATIF.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The file to write.")],
    root: RootOption = None,
) -> None:
    """Convert a trajectory of Uchide. In an artifact, the patch comes along."""
    from uchide.agents.interop import atif_export, mini_export, own
    from uchide.store.atomic import write_bytes

    rollout = own.load(_one(which, root))
    text = mini_export.text(rollout) if to is To.MINI else atif_export.text(rollout)
    write_bytes(out, text.encode())
    say(f"{out}: {plural(len(rollout.turns), 'turn')} of {rollout.header.candidate_id}")
    for note in rollout.notes:
        say(f"note: {note}")
    if rollout.patch is None:
        say("note: the patch is not in it: only a file inside its artifact is found beside its row", err=True)


@app.command()
def show(
    which: Which,
    instance: Instance = "",
    phase: Annotated[str, typer.Option("--phase", metavar="NAME", help="Only this phase or node.")] = "",
    turn: Annotated[
        int | None, typer.Option("--turn", metavar="N", min=1, help="Only this turn, counted over all.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Leave nothing out.")] = False,
    root: RootOption = None,
) -> None:
    """Print a trajectory of Uchide, mini-swe-agent, SWE-agent, OpenHands or ATIF, paged on a terminal."""
    from uchide.agents.interop import load
    from uchide.cli.paging import Part, lines, show

    show(lines(load(_one(which, root), instance), Part(phase, turn, full)))


@app.command()
def compare(first: Which, second: Which, instance: Instance = "", root: RootOption = None) -> None:
    """Print two trajectories side by side, in numbers."""
    from uchide.agents.interop import load
    from uchide.agents.interop.compare import compare

    paths = _one(first, root), _one(second, root)
    rows = compare(*(load(path, instance) for path in paths))
    say(table([list(row) for row in rows], head=["", *_heads(*paths)]))


def _heads(first: Path, second: Path) -> tuple[str, str]:
    """The ends of two paths, as long as it takes to tell them apart: within the store, the name of the artifact says
    arm and run, and within a checkout an experiment's folder says which."""
    one, two = first.absolute().parts, second.absolute().parts
    short = next((n for n in range(1, min(len(one), len(two))) if one[-n:] != two[-n:]), 1)
    return "/".join(one[-short:]), "/".join(two[-short:])
