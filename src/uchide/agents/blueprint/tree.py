"""The work tree and the share of a sandbox as bytes, to be put back in this sandbox or in a fresh one.

A tree is what differs from the base tree: changed files by content (whatever they hold, with modes and links) and the
names of those that are gone. Files that git ignores, `/tmp` and the repository's own `.git` are no part of it.
"""

import io
import tarfile
from collections.abc import Collection

from uchide.errors import PatchError
from uchide.patches.git import ROOT, git_session, shell
from uchide.patches.suite import SHARE
from uchide.protocols import Sandbox

LIMIT = 64_000_000
"""Bytes. What is larger is not kept."""
GONE = ".uchide-gone"
"""Member of a tree's archive: the removed paths, each ended by a NUL."""

_INDEX = """git read-tree "$1"; git add -A -- . 2>/dev/null || git add -A --ignore-errors -- . || :
names() { git diff --cached --name-only -z --no-renames --ignore-submodules=none --diff-filter="$2" "$1"; }
"""
_KEEP = """names "$1" d > "$dir/kept"; names "$1" D > "$dir/.uchide-gone"
touch -d @0 "$dir/.uchide-gone"
tar --null --no-recursion --verbatim-files-from -T "$dir/kept" -cf "$dir/tree.tar" -C "$dir" .uchide-gone
"""
_REVERT = """names "$1" A | xargs -0 -r rm -rf --
names "$1" a > "$dir/back"
git read-tree "$1"; git checkout-index -f -z --stdin < "$dir/back"
"""
_PACK_SHARE = 'set -eu; tar -cf "$1" -C "$2" .'
_UNPACK = 'set -eu; if [ "$3" = yes ]; then find "$2" -mindepth 1 -delete; fi; tar -xpf "$1" -C "$2"; rm -f "$1"'


async def tree_of(sandbox: Sandbox, base_tree: str) -> bytes | None:
    """What differs from the base tree; None when it is too large. Raises PatchError when git cannot tell."""
    async with git_session(sandbox) as session:
        await session.run(_INDEX + _KEEP, base_tree)
        return await session.read("tree.tar", limit=LIMIT)


async def put_tree(sandbox: Sandbox, base_tree: str, data: bytes) -> None:
    """Make the work tree the base tree with these differences. Raises PatchError."""
    async with git_session(sandbox) as session:
        await session.run(_INDEX + _REVERT, base_tree)
    await shell(sandbox, "xargs -0 -r rm -rf --", stdin=_gone(data))
    await _unpack(sandbox, data, ROOT)
    await shell(sandbox, 'rm -f -- "$1"', GONE)


def only(data: bytes, paths: Collection[str]) -> bytes:
    """The same tree with no other differences than added or changed files at these paths."""
    made = io.BytesIO()
    with _archive(data) as old, tarfile.open(fileobj=made, mode="w:") as new:
        for member in old:
            if member.name in paths:
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
        new.addfile(tarfile.TarInfo(GONE))
    return made.getvalue()


def files_of(data: bytes) -> tuple[str, ...]:
    """The paths a tree adds or changes."""
    with _archive(data) as archive:
        return tuple(member.name for member in archive if member.name != GONE)


async def share_of(sandbox: Sandbox) -> bytes | None:
    """Every file of the share; None when it is too large. Raises PatchError when it cannot be read."""
    async with git_session(sandbox) as session:
        await shell(sandbox, _PACK_SHARE, f"{session.folder}/share.tar", SHARE)
        return await session.read("share.tar", limit=LIMIT)


async def put_share(sandbox: Sandbox, data: bytes) -> None:
    """Make the share hold these files and no others. Raises PatchError."""
    await _unpack(sandbox, data, SHARE, empty=True)


async def _unpack(sandbox: Sandbox, data: bytes, folder: str, *, empty: bool = False) -> None:
    async with git_session(sandbox) as session:
        path = f"{session.folder}/files.tar"
        await sandbox.write(path, data)
        await shell(sandbox, _UNPACK, path, folder, "yes" if empty else "no")


def _gone(data: bytes) -> bytes:
    with _archive(data) as archive:
        member = archive.extractfile(GONE)
        return member.read() if member else b""


def _archive(data: bytes) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=io.BytesIO(data), mode="r:", errors="surrogateescape")
    except tarfile.TarError as error:
        raise PatchError(f"a saved tree cannot be read: {error}") from error
