"""What is in the store: listing, sizes, and what nothing points to any more."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from uchide.errors import StoreError
from uchide.paths import Root
from uchide.store.artifact import Artifact
from uchide.store.atomic import read_json
from uchide.store.lease import holder, is_alive
from uchide.store.manifest import LEASE, MANIFEST


@dataclass(frozen=True)
class Listing:
    """One artifact. `rows` counts all its row files."""

    name: str
    label: str
    rows: int
    bytes: int
    content: str


def chosen(root: Root, which: Iterable[str]) -> list[Path]:
    """Folders of finished artifacts: of experiments, by name, by path, or (of nothing) all of the store.

    Raises StoreError for a name that is none of these.
    """
    which = list(which)
    if not which:
        return sorted(path.parent for path in root.store.glob(f"*/{MANIFEST}"))
    found: dict[Path, None] = {}
    for item in which:
        for path in _named(root, item):
            found[path] = None
    return list(found)


def _named(root: Root, item: str) -> list[Path]:
    if (root.store / item / MANIFEST).is_file():
        return [root.store / item]
    if (home := root.home(item)).is_dir():
        tops = sorted({link.resolve() for link in home.iterdir() if link.is_symlink()})
        return [path for path in tops if (path / MANIFEST).is_file()]
    if (Path(item) / MANIFEST).is_file():
        return [Path(item).resolve()]
    raise StoreError(f"{item!r} is no experiment, no artifact of {root.store}, and no folder with a {MANIFEST}")


def listing(path: Path) -> Listing:
    manifest = Artifact(path).manifest
    identity = manifest.identity
    return Listing(
        name=path.name,
        label="-".join(item for item in (identity.stage, identity.kind) if item),
        rows=sum(entry.count for entry in manifest.rows.values()),
        bytes=folder_size(path),
        content=manifest.content_digest,
    )


def folder_size(path: Path) -> int:
    """Bytes of all files below; a hard link counts where it is found."""
    return sum(item.stat().st_size for item in path.rglob("*") if item.is_file() and not item.is_symlink())


def pointed_by(root: Root) -> dict[str, list[str]]:
    """Artifact name -> experiments that reach it, directly or through inputs and parts."""
    users: dict[str, list[str]] = {}
    for home in sorted(root.artifacts.iterdir()) if root.artifacts.is_dir() else []:
        if home == root.store or not home.is_dir():
            continue
        for name in _reachable(root, (link.resolve().name for link in home.iterdir() if link.is_symlink())):
            users.setdefault(name, []).append(home.name)
    return users


def _reachable(root: Root, names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        path = root.store / name
        if name in seen or not (path / MANIFEST).is_file():
            continue
        seen.add(name)
        manifest = Artifact(path).manifest
        todo += [*manifest.inputs, *manifest.children]
    return seen


def garbage(root: Root) -> list[Path]:
    """Artifacts, and remains of unfinished ones, that no experiment reaches and nobody is writing.

    What an experiment's latest start makes or reads is kept: pointers are set at its end, so until then (and when it
    was stopped) nothing else names the parts it finished. So are unfinished parts of any start.
    """
    kept = set(pointed_by(root)) | _of_latest_starts(root)
    for jobs in root.artifacts.glob("*/runs/*/jobs"):
        kept |= {path.stem for path in jobs.glob("*.json") if not (root.store / path.stem / MANIFEST).is_file()}
    if not root.store.is_dir():
        return []
    return [path for path in sorted(root.store.iterdir()) if path.name not in kept and not _in_use(path)]


def _of_latest_starts(root: Root) -> set[str]:
    names: set[str] = set()
    for runs in root.artifacts.glob("*/runs"):
        latest = max(runs.glob("*/jobs"), default=runs / "none")  # run folders are named by their time
        for path in latest.glob("*.json"):
            inputs = read_json(path)["inputs"]
            names |= {path.stem, *(Path(rel).parts[0] for many in inputs.values() for rel in many)}
    return names | _reachable(root, names)


def _in_use(path: Path) -> bool:
    owner = holder(path / LEASE)
    return owner is not None and is_alive(owner)


def remove(path: Path) -> bool:
    """Remove an artifact, its manifest first, so that half of it is never taken for whole."""
    (path / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(path)
    return True
