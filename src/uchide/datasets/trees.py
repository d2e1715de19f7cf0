"""Base trees: a work tree with exactly one commit, kept as one reproducible archive named by its content.

The digest covers paths, modes and bytes of the work tree, never git's own files, so that another version of git or
zstd gives the same name to the same tree.
"""

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from uchide.datasets.git import git, init
from uchide.datasets.unpacking import extract
from uchide.errors import DatasetError

LEFT_OUT = frozenset({".git", "__pycache__"})
COMMIT = {
    "GIT_AUTHOR_NAME": "Uchide",
    "GIT_AUTHOR_EMAIL": "uchide@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Uchide",
    "GIT_COMMITTER_EMAIL": "uchide@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
\tautocrlf = false
"""


def content_digest(folder: Path) -> str:
    """SHA-256 over every path, mode and content of a work tree; `.git`, `__pycache__` and `.pyc` files do not count."""
    total = hashlib.sha256()
    for path in entries(folder):
        name = os.fsencode(path.relative_to(folder))
        if path.is_symlink():
            kind, data = b"120000", os.fsencode(path.readlink())
        elif path.is_dir():
            kind, data = b"040000", b""
        else:
            kind, data = (b"100755" if _executable(path) else b"100644"), path.read_bytes()
        total.update(b"%s %s %s\0" % (kind, hashlib.sha256(data).hexdigest().encode(), name))
    return total.hexdigest()


def entries(folder: Path) -> Iterator[Path]:
    """Everything in a work tree, folders before what is in them, sorted by bytes."""
    for path in sorted(folder.iterdir(), key=lambda item: os.fsencode(item.name)):
        if path.name in LEFT_OUT or path.suffix == ".pyc":
            continue
        if not (path.is_symlink() or path.is_dir() or path.is_file()):
            raise DatasetError(f"{path} is neither a file, a folder nor a symbolic link")
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from entries(path)


def copy(source: Path, target: Path) -> None:
    """Copy a work tree byte for byte into the new folder `target`, without its history and without compiled files."""
    target.mkdir(parents=True)
    for path in entries(source):
        there = target / path.relative_to(source)
        if path.is_symlink():
            there.symlink_to(path.readlink())
        elif path.is_dir():
            there.mkdir()
        else:
            shutil.copyfile(path, there)
            there.chmod(0o755 if _executable(path) else 0o644)


def pack(folder: Path, out_dir: Path) -> str:
    """Write `out_dir/<digest>.tar.zst` holding the tree with its one commit, and return the digest.

    An archive that is there already is left alone. `folder` itself is not changed; history of its own is left out.
    """
    digest = content_digest(folder)
    target = out_dir / f"{digest}.tar.zst"
    if target.exists():
        return digest
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="uchide-tree-") as scratch:
        tree = Path(scratch) / "tree"
        copy(folder, tree)
        _commit(tree)
        data = zstandard.ZstdCompressor(level=10, write_checksum=True).compress(_tar(tree))
    partial = out_dir / f".{digest}.{os.getpid()}.tmp"
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return digest


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into `folder`, which is made and must not hold anything. Raises DatasetError on a damaged archive."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DatasetError(f"{folder} is not empty")
    try:
        with archive.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            data = io.BytesIO(stream.read())
        with tarfile.open(fileobj=data, mode="r:") as tar:
            extract(tar, folder, what=archive.name)
    except (OSError, zstandard.ZstdError, tarfile.TarError) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}", hint="remove it and prepare again") from error


def _executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _commit(tree: Path) -> None:
    """Make the one commit; leave only what a repository needs: config, HEAD, packed refs, one pack, an index."""
    init(tree)
    git(tree, "add", "--all", "--force", ".")
    sha = git(tree, "commit-tree", git(tree, "write-tree").decode().strip(), "-m", "base", env=COMMIT).decode().strip()
    git(tree, "update-ref", "refs/heads/main", sha)
    git(tree, "repack", "-adfq")
    git(tree, "pack-refs", "--all")
    git(tree, "read-tree", "--empty")
    git(tree, "read-tree", "HEAD")
    dot = tree / ".git"
    (dot / "config").write_text(CONFIG)
    for name in (
        "hooks",
        "logs",
        "branches",
        "description",
        "ORIG_HEAD",
        "COMMIT_EDITMSG",
        "info/refs",
        "objects/info",
    ):
        path = dot / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (dot / "objects" / "info").mkdir()


def _tar(tree: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        for path in sorted(tree.rglob("*"), key=os.fsencode):
            info = tar.gettarinfo(path, arcname=str(path.relative_to(tree)))
            info.mtime, info.uid, info.gid, info.uname, info.gname = 946_684_800, 0, 0, "", ""
            info.mode = 0o755 if path.is_dir() or info.mode & 0o100 else 0o644
            if info.isreg():
                with path.open("rb") as source:
                    tar.addfile(info, source)
            else:
                tar.addfile(info)
    return buffer.getvalue()


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="uchide-") as name:
        yield Path(name)
