"""Reading a finished artifact, and checking every byte of it."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from uchide import records
from uchide.errors import StoreError
from uchide.records import Record, canonical, digest
from uchide.store.atomic import file_digest, read_json
from uchide.store.manifest import FILES, MANIFEST, RUN, Manifest, R, RunInfo, content_digest, load_record
from uchide.store.rows import latest


class Artifact:
    """A finished artifact: a folder with a manifest. Raises StoreError when it has none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / MANIFEST).is_file():
            raise StoreError(f"{path} holds no {MANIFEST}: it is not a finished artifact")

    def __repr__(self) -> str:
        return f"Artifact({str(self.path)!r})"

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def manifest(self) -> Manifest:
        return load_record(self.path / MANIFEST, Manifest)

    @cached_property
    def run(self) -> RunInfo:
        """Hosts, times, code and CPU seconds: what differs from run to run."""
        return load_record(self.path / RUN, RunInfo)

    def rows(self, model: type[R], name: str = "rows") -> Iterator[R]:
        """The rows of one row file, in the order they were finished. None when the artifact has no such file."""
        return read_rows(self.path / f"{name}.jsonl", model)

    def file(self, rel: str) -> Path:
        """Path of a side file. Raises StoreError when it is missing."""
        path = self.path / rel
        if not path.is_file():
            raise StoreError(f"{self.name}: {rel} is missing")
        return path

    def children(self) -> dict[str, "Artifact"]:
        """Part (`generate.main.r01_s1001.s000`) -> artifact, in the order of their names.

        A reused artifact carries its children inside; otherwise they lie beside it in the store.
        """
        inside = self.path / "children"
        folder = inside if inside.is_dir() else self.path.parent
        kids = [Artifact(folder / name) for name in sorted(self.manifest.children)]
        return {kid.manifest.part: kid for kid in kids}


def read_rows(path: Path, model: type[R]) -> Iterator[R]:
    """Rows of a row file, finished or still growing. Raises StoreError naming the row that does not fit."""
    for id_, row in latest(path).items():
        try:
            yield model.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise StoreError(f"{path}: row {id_!r}: {where}: {first['msg']}") from error


def verify(artifact: Artifact) -> int:
    """Re-read every byte of an artifact and of its children; returns the number of files read.

    Raises StoreError naming the first file, row file or child that is not what its manifest says.
    """
    sums = read_json(artifact.path / FILES)
    for rel, want in sums.items():
        path = artifact.path / rel
        got = file_digest(path) if path.is_file() else "nothing"
        if got != want:
            raise StoreError(f"{artifact.name}/{rel}: content is {got[:12]}, {FILES} says {want[:12]}")
    _verify_content(artifact)
    count = len(sums)
    for kid in artifact.children().values():
        count += verify(kid)
        want, got = artifact.manifest.children[kid.name], kid.manifest.content_digest
        if got != want:
            raise StoreError(f"{artifact.name}: child {kid.name} has content {got[:12]}, its parent says {want[:12]}")
    return count


def _verify_content(artifact: Artifact) -> None:
    manifest = artifact.manifest
    for name, entry in manifest.rows.items():
        model = getattr(records, entry.model, None)
        if not (isinstance(model, type) and issubclass(model, Record)):
            continue  # rows of a record class outside uchide.records: their bytes were checked
        lines = sorted(canonical(row) for row in artifact.rows(model, name))
        got = digest("\n".join(lines))
        if got != entry.content_digest or len(lines) != entry.count:
            raise StoreError(
                f"{artifact.name}/{name}.jsonl: rows digest to {got[:12]}, not {entry.content_digest[:12]}"
            )
    got = content_digest(manifest.rows, manifest.files, manifest.children)
    if got != manifest.content_digest:
        raise StoreError(f"{artifact.name}/{MANIFEST}: content_digest does not follow from its entries")
