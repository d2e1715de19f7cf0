"""Reusing an artifact: check every byte of it, then link it, its parts inside, into the store."""

import os
import shutil
from pathlib import Path

from uchide.pipeline.spec import JobSpec
from uchide.pipeline.worker import guarded
from uchide.store import Artifact, verify
from uchide.store.atomic import refused, sync_folder, write_json
from uchide.store.lease import lease
from uchide.store.manifest import LEASE, MANIFEST, RESERVED, RUN


def execute_reuse(spec_path: Path) -> None:
    """Do a reuse job."""
    guarded(spec_path, lambda spec, reporter: link_in(spec))


def link_in(spec: JobSpec) -> None:
    """Make `spec.folder` a copy of the artifact `spec.reuse`; the manifest is byte for byte the same, and comes last.

    Raises StoreError naming the first file that is not what its manifest says.
    """
    source = Artifact(Path(spec.reuse))
    with lease(spec.folder / LEASE, spec.name, wait_s=5.0):
        if (spec.folder / MANIFEST).exists():
            return
        verify(source)
        for kid in source.children().values():
            _link(kid, spec.folder / "children" / kid.name)
        _link(source, spec.folder)


def _link(source: Artifact, to: Path) -> None:
    try:
        for path in sorted(source.path.rglob("*")):
            rel = path.relative_to(source.path)
            if path.is_file() and not _skipped(rel):
                _link_file(path, to / rel)
    except OSError as error:
        raise refused(to, error) from error
    info = source.run.model_copy(update={"reused_from": source.run.reused_from or str(source.path)})
    write_json(to / RUN, info.model_dump(mode="json"))
    _link_file(source.path / MANIFEST, to / MANIFEST)
    sync_folder(to)


def _skipped(rel: Path) -> bool:
    own = rel.name in RESERVED and rel.name != "files.json" and len(rel.parts) == 1
    return own or rel.parts[0] == "children" or any(piece.startswith(".") for piece in rel.parts)


def _link_file(path: Path, to: Path) -> None:
    """A hard link where the file system allows it, else a copy."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    try:
        os.link(path, to)
    except OSError:
        shutil.copy2(path, to)
