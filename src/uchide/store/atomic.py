"""Writing files so that a reader, or a crash, sees all of one or nothing of it."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from uchide.errors import StoreError


def write_bytes(path: Path, data: bytes) -> None:
    """Write `path` by fsync and rename, making its folders. Raises StoreError when the disk refuses."""
    tmp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tmp.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        tmp.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        tmp.unlink(missing_ok=True)
        raise refused(path, error) from error


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 (anything JSON can hold)
    """Write sorted, indented ASCII JSON."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:  # noqa: ANN401
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode()


def read_json(path: Path) -> Any:  # noqa: ANN401
    """Raises StoreError naming the file when it is missing or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path} is not JSON: {error}", hint=lfs_hint(path)) from error


def lfs_hint(path: Path) -> str:
    """What to do when a file is a Git LFS pointer instead of its content; empty otherwise."""
    try:
        with path.open("rb") as file:
            pointer = file.read(40).startswith(b"version https://git-lfs")
    except OSError:
        return ""
    return "it is a Git LFS pointer: run `git lfs pull`" if pointer else ""


def point(link: Path, target: Path) -> None:
    """Make `link` a relative symbolic link to `target`, replacing an earlier link atomically."""
    try:
        _point(link, target)
    except OSError as error:
        raise refused(link, error) from error


def _point(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and not link.is_symlink():
        raise StoreError(f"{link} is in the way: a link to {target.name} belongs there", hint="move it away")
    relative = os.path.relpath(target.resolve(), link.parent.resolve())
    if link.is_symlink() and str(link.readlink()) == relative:
        return
    tmp = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    tmp.unlink(missing_ok=True)
    tmp.symlink_to(relative)
    tmp.replace(link)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_room(folder: Path, size: int = 1 << 20) -> None:
    """Raises StoreError when `size` more bytes do not fit into `folder`."""
    probe = folder / f".room.{os.getpid()}"
    try:
        probe.write_bytes(bytes(size))
    except OSError as error:
        raise refused(folder, error) from error
    finally:
        probe.unlink(missing_ok=True)


def refused(path: Path, error: OSError) -> StoreError:
    """An operating system's refusal to write, as one clear error."""
    reason = error.strerror or str(error)
    if isinstance(error, shutil.Error):  # copytree: a list of (from, to, reason)
        reason = str(error.args[0][-1][-1])
    return StoreError(
        f"{path} cannot be written: {reason}",
        hint="free some space or fix the permissions, then run the same command again: finished rows are kept",
    )


def explained(error: OSError) -> StoreError:
    """An operating system's refusal that nobody nearer to it has explained: which file, and why."""
    path = Path(str(error.filename or "a file"))
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM):
        return refused(path, error)
    if error.errno == errno.ENOENT and error.filename and "/" not in str(error.filename):
        return StoreError(f"the program {error.filename} is not installed", hint="uchide doctor")
    return StoreError(f"{path}: {error.strerror or error}")
