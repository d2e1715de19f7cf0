"""Unpacking tar archives that nobody vouches for: only files, folders and links that stay inside, never through a link.

Python's own extraction filters came with 3.11.4; distributions still ship older ones.
"""

import os
import posixpath
import tarfile
from pathlib import Path

from uchide.errors import DatasetError

MAX_BYTES = 1_000_000_000
MAX_MEMBERS = 100_000


def extract(archive: tarfile.TarFile, folder: Path, *, what: str) -> None:
    """Write the members of `archive` under `folder`, which must exist. Modes become 755 or 644; owners and times go.

    Links are made last, so that nothing is written through one. Raises DatasetError (naming `what`) on a member that
    leaves the folder, is a device, or when there are too many members or bytes.
    """
    links: list[tuple[Path, str]] = []
    total = 0
    for count, member in enumerate(archive):
        name = _inside(member.name, what)
        target = folder / name
        total += member.size
        if count >= MAX_MEMBERS or total > MAX_BYTES:
            raise DatasetError(f"{what}: more than {MAX_MEMBERS} members or {MAX_BYTES} bytes")
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            _inside(posixpath.join(posixpath.dirname(name), member.linkname), what)
            links.append((target, member.linkname))
        elif member.isreg():
            _write(archive, member, target, what)
        else:
            raise DatasetError(f"{what}: {member.name!r} is neither a file, a folder nor a symbolic link")
    for target, destination in links:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() or target.is_symlink():
            raise DatasetError(f"{what}: {target.name!r} is there twice")
        target.symlink_to(destination)


def _inside(name: str, what: str) -> str:
    clean = posixpath.normpath(name)
    if posixpath.isabs(clean) or clean == ".." or clean.startswith("../") or "\0" in clean:
        raise DatasetError(f"{what}: {name!r} leads out of the archive's folder")
    return clean


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, what: str) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise DatasetError(f"{what}: {member.name!r} has no content")
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb") as sink:
        while block := source.read(1 << 20):
            sink.write(block)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
