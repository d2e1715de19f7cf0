"""Writing one part of an artifact: lease, append-only rows, side files, and the manifest last."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError

from uchide.errors import StoreError
from uchide.records import Record, canonical, digest
from uchide.store.artifact import Artifact
from uchide.store.atomic import file_digest, json_bytes, write_bytes, write_json
from uchide.store.lease import Lease, lease
from uchide.store.manifest import (
    FILES,
    LEASE,
    MANIFEST,
    RESERVED,
    RUN,
    Identity,
    Manifest,
    RowsEntry,
    RunInfo,
    Session,
    begin_session,
    content_digest,
    load_record,
    now,
    process_cpu_seconds,
)
from uchide.store.rows import Notice, RowFile


class AlreadyFinishedError(StoreError):
    """Another process finished the part meanwhile: nothing is left to do."""


class Part:
    """A part being written. Rows are durable when `append` returns; the part exists once `finish` returned."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        models: Mapping[str, type[Record]],
        *,
        held: Lease,
        code: str,
        volatile_files: tuple[str, ...],
        notice: Notice,
    ) -> None:
        self.path = path
        self.identity = identity
        self.models = dict(models)
        self._lease = held
        self._volatile = volatile_files
        self._files = {name: RowFile(path / f"{name}.jsonl", notice) for name in models}
        self._session = begin_session(code)
        self._cpu_before = process_cpu_seconds()
        self._earlier = _earlier_sessions(path)
        self._write_run(self._session)

    def done(self, name: str = "rows") -> set[str]:
        """Ids of the rows already on disk, those of earlier sessions included."""
        return set(self._files[name].rows)

    def rows(self, name: str = "rows") -> dict[str, Record]:
        """Id -> row, as on disk. Raises StoreError when a row does not fit its model."""
        return {id_: self._parse(name, id_, row) for id_, row in self._files[name].rows.items()}

    def append(self, record: Record, *, id: str, name: str = "rows") -> None:
        """Write one row. A row of an earlier session with this id is replaced; of this session, it is an error."""
        self._lease.check()
        if type(record) is not self.models[name]:
            raise StoreError(
                f"{self.path.name}: {name} holds {self.models[name].__name__}, not {type(record).__name__}"
            )
        self._files[name].append(id, record.model_dump(mode="json"))

    def file(self, rel: str) -> Path:
        """Host path of a side file inside the part, its folder made. It is checksummed when the part is finished."""
        path = self.path / rel
        if not path.resolve().is_relative_to(self.path.resolve()) or rel in RESERVED:
            raise StoreError(f"{self.path.name}: {rel!r} is not a name for a side file")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, *, inputs: Iterable[Artifact] = (), children: Iterable[Artifact] = ()) -> Manifest:
        """Seal the part: checksums, run.json, then manifest.json. Afterwards nothing may be written."""
        self._lease.check()
        children = list(children)
        rows = {name: self._rows_entry(name) for name in sorted(self._files)}
        for file in self._files.values():
            file.close()
        sums = checksums(self.path)
        stable = {rel: sums[rel] for rel in sums if self._is_content(rel)}
        kids = {child.name: child.manifest.content_digest for child in children}
        manifest = Manifest(
            identity=self.identity,
            inputs={item.name: item.manifest.content_digest for item in inputs},
            rows=rows,
            files=stable,
            children=kids,
            content_digest=content_digest(rows, stable, kids),
        )
        self._write_run(self._session.model_copy(update={"end": now(), "cpu_seconds": self._cpu()}), children)
        data = json_bytes(manifest.model_dump(mode="json"))
        write_json(self.path / FILES, {**sums, MANIFEST: digest(data)})
        write_bytes(self.path / MANIFEST, data)
        return manifest

    def close(self) -> None:
        """Leave the part as it is; the CPU seconds of this session are kept."""
        if not (self.path / MANIFEST).exists():
            self._write_run(self._session.model_copy(update={"end": now(), "cpu_seconds": self._cpu()}))
        for file in self._files.values():
            file.close()

    def _parse(self, name: str, id_: str, row: dict[str, object]) -> Record:
        try:
            return self.models[name].model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise StoreError(
                f"{self.path / name}.jsonl: row {id_!r}: {field}: {first['msg']}",
                hint="another version of uchide wrote it; remove this folder to make it again",
            ) from error

    def _rows_entry(self, name: str) -> RowsEntry:
        lines = sorted(canonical(row) for row in self.rows(name).values())
        return RowsEntry(model=self.models[name].__name__, count=len(lines), content_digest=digest("\n".join(lines)))

    def _is_content(self, rel: str) -> bool:
        is_rows = rel.endswith(".jsonl") and rel[: -len(".jsonl")] in self._files
        return not is_rows and not any(fnmatch(rel, pattern) for pattern in self._volatile)

    def _cpu(self) -> float:
        return round(process_cpu_seconds() - self._cpu_before, 3)

    def _write_run(self, session: Session, children: Iterable[Artifact] = ()) -> None:
        sessions = (*self._earlier, session)
        codes: dict[str, set[str]] = {}
        for child in children:
            for kind, seen in child.run.codes.items():
                codes.setdefault(kind, set()).update(seen)
        if not codes:
            codes[self.identity.kind] = {item.code for item in sessions}
        info = RunInfo(
            sessions=sessions,
            codes={kind: tuple(sorted(seen)) for kind, seen in codes.items()},
            cpu_seconds=round(sum(item.cpu_seconds for item in sessions), 3),
        )
        write_json(self.path / RUN, info.model_dump(mode="json"))


def checksums(folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of every file that belongs to an artifact's own content."""
    sums = {}
    for path in sorted(folder.rglob("*")):
        rel = path.relative_to(folder).as_posix()
        if rel in RESERVED or any(piece.startswith(".") for piece in path.relative_to(folder).parts):
            continue
        if path.is_file():
            sums[rel] = file_digest(path)
    return sums


def _earlier_sessions(path: Path) -> tuple[Session, ...]:
    return load_record(path / RUN, RunInfo).sessions if (path / RUN).exists() else ()


@contextmanager
def open_part(
    path: Path,
    identity: Identity,
    models: Mapping[str, type[Record]] | None = None,
    *,
    code: str = "",
    volatile_files: tuple[str, ...] = (),
    wait_s: float = 5.0,
    notice: Notice = print,
) -> Iterator[Part]:
    """Open a part for writing, resuming what an earlier session left.

    `models` names the row files (`{"rows": Candidate, "excluded": Excluded}`); side files that match `volatile_files`
    are checksummed but are no part of the content digest. Waits `wait_s` seconds for a dying holder of the lease.
    Raises LeaseError naming a live writer, StoreError when the disk refuses, AlreadyFinishedError when the part is.
    """
    with lease(path / LEASE, path.name, wait_s=wait_s) as held:
        if (path / MANIFEST).exists():
            raise AlreadyFinishedError(f"{path.name} is finished already and cannot be written again")
        _drop_temporary(path)
        part = Part(path, identity, models or {}, held=held, code=code, volatile_files=volatile_files, notice=notice)
        try:
            yield part
        finally:
            part.close()


def _drop_temporary(path: Path) -> None:
    for left in path.glob(".*.tmp"):
        if not left.is_symlink() and left.is_file() and str(os.getpid()) not in left.name:
            left.unlink()
