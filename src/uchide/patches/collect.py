"""Measure what a session changed: a patch of the sources, and the changed test files, against the tree it began with.

The repository's own index, HEAD and stash stay as they are, and whatever an agent staged, committed, configured or
hid from git makes no difference: git runs with a directory of its own (`uchide.patches.git`).
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from uchide.errors import PatchError
from uchide.patches.git import ROOT, GitSession, base_tree_of_head, git_session
from uchide.patches.libraries import NESTED, is_test, library_folders
from uchide.patches.normalise import normalise
from uchide.patches.paths import build_folder, is_artefact
from uchide.protocols import Sandbox

PATCH_LIMIT = 10_000_000
"""Bytes. A larger patch is not a repair."""

_LISTING_LIMIT = 50_000_000
_DIFF = (
    "git diff --cached --no-color --no-ext-diff --no-textconv --no-renames --full-index --binary -U3 "
    "--src-prefix=a/ --dst-prefix=b/ --no-relative --ignore-submodules=all"
)


@dataclass(frozen=True)
class Change:
    """One path that differs from the base tree. Modes are git's; an absent side has mode `000000`."""

    path: bytes
    status: Literal["added", "modified", "deleted"]
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    binary: bool
    is_test: bool

    @property
    def name(self) -> str:
        """The path as text; bytes that are not UTF-8 are shown escaped."""
        return shown(self.path)


@dataclass(frozen=True)
class CollectedPatch:
    """`patch` holds the source changes only and ends in one newline (or is empty); `tests` are for the suite."""

    patch: str
    files: tuple[str, ...]
    """Paths in the patch."""
    tests: tuple[Change, ...] = ()
    """Changed test files."""
    warnings: tuple[str, ...] = ()
    """What was left out, and why."""


async def snapshot(sandbox: Sandbox, root: str = ROOT) -> str:
    """Tree id of the work tree as it is (tracked and unignored untracked files), to measure a patch from later."""
    async with git_session(sandbox, root) as session:
        head = await base_tree_of_head(sandbox, root)
        script = 'git read-tree "$1"; git add -A -- .; git write-tree'
        return (await session.run(script, head, keep_objects=True)).decode().strip()


async def changed_files(sandbox: Sandbox, base_tree: str, root: str = ROOT) -> tuple[Change, ...]:
    """Every path that differs from the base tree, sorted, artefacts included."""
    async with git_session(sandbox, root) as session:
        return await _changes(session, base_tree)


async def collect(sandbox: Sandbox, base_tree: str, *, exclude: Iterable[str] = (), root: str = ROOT) -> CollectedPatch:
    """The session's changes. `exclude` names scratch files or folders (with a final `/`) that are no part of them.

    Raises PatchError when git cannot read the base tree any more (the agent removed `.git`).
    """
    async with git_session(sandbox, root) as session:
        changes = await _changes(session, base_tree)
        kept, warnings = await _sift(session, base_tree, changes, tuple(exclude))
        sources = [change for change in kept if not change.is_test]
        patch, unreadable = await _diff(session, base_tree, changes, sources)
        if patch is None:
            notice = f"the patch is larger than {PATCH_LIMIT:,} bytes and was dropped"
            return CollectedPatch("", (), warnings=(*warnings, notice))
        warnings += [f"{name}: not UTF-8, kept as a git binary patch" for name in unreadable]
        warnings += await _verify(session, base_tree, patch)
    tests = tuple(change for change in kept if change.is_test)
    return CollectedPatch(patch, tuple(change.name for change in sources), tests, tuple(warnings))


async def _changes(session: GitSession, base_tree: str) -> tuple[Change, ...]:
    script = """git read-tree "$1"; git add -A -- . 2>/dev/null || git add -A --ignore-errors -- . || :
git diff --cached --raw -z --no-renames --no-abbrev --no-ext-diff --ignore-submodules=none "$1" > "$dir/raw"
git diff --cached --numstat -z --no-renames --no-ext-diff --no-textconv "$1" > "$dir/numstat" """
    await session.run(script, base_tree)
    raw = await session.read("raw", limit=_LISTING_LIMIT)
    numstat = await session.read("numstat", limit=_LISTING_LIMIT)
    if raw is None or numstat is None:
        raise PatchError("too many files changed to list them")
    binary = {line.split(b"\t", 2)[2] for line in numstat.split(b"\0") if line.startswith(b"-\t-\t")}
    fields = raw.split(b"\0")
    libraries = await _libraries(session, base_tree, map(shown, fields[1::2]))
    return tuple(_change(fields[i], fields[i + 1], binary, libraries) for i in range(0, len(fields) - 1, 2))


async def _libraries(session: GitSession, base_tree: str, changed: Iterable[str]) -> frozenset[str]:
    """Folders named like tests that are code of a package; looked for only where something in one changed."""
    if not any(NESTED.search(name) for name in changed):
        return frozenset()
    await session.run('git ls-tree -r -z --name-only "$1" > "$dir/base"', base_tree)
    listing = await session.read("base", limit=_LISTING_LIMIT)
    return library_folders(map(shown, (listing or b"").split(b"\0")))


def shown(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def _change(fields: bytes, path: bytes, binary: set[bytes], libraries: frozenset[str]) -> Change:
    old_mode, new_mode, old_id, new_id, letter = fields.decode().lstrip(":").split(" ")
    status: Literal["added", "modified", "deleted"] = (
        "added" if letter == "A" else "deleted" if letter == "D" else "modified"
    )
    test = is_test(shown(path), libraries)
    return Change(path, status, old_mode, new_mode, old_id, new_id, path in binary, test)


async def _sift(
    session: GitSession, base_tree: str, changes: Iterable[Change], exclude: tuple[str, ...]
) -> tuple[list[Change], list[str]]:
    """The changes that count, and a warning for each that does not."""
    kept: list[Change] = []
    warnings: list[str] = []
    suspects = {folder for change in changes if change.status == "added" and (folder := build_folder(change.name))}
    built = {folder for folder in suspects if not await _in_base(session, base_tree, folder)}
    for change in changes:
        if any(change.name == path or (path.endswith("/") and change.name.startswith(path)) for path in exclude):
            continue
        if reason := _reason_to_drop(change, built) or await _bad_link(session, change):
            warnings.append(f"{change.name}: {reason}")
        else:
            kept.append(change)
    return kept, warnings


def _reason_to_drop(change: Change, built: set[str]) -> str:
    if change.status == "added" and (is_artefact(change.name) or build_folder(change.name) in built):
        return "build product or cache, dropped"
    if "160000" in (change.old_mode, change.new_mode):
        return "nested repository, dropped"
    if change.status == "modified" and change.old_id == change.new_id:
        return f"only its mode changed ({change.old_mode} -> {change.new_mode}), dropped"
    if change.binary:
        return "binary file, dropped"
    return ""


async def _in_base(session: GitSession, base_tree: str, folder: str) -> bool:
    return bool(await session.run('git ls-tree -r --name-only "$1" -- "$2" | head -n 1', base_tree, folder))


async def _bad_link(session: GitSession, change: Change) -> str:
    if change.new_mode != "120000":
        return ""
    target = (await session.run('git cat-file blob "$1"', change.new_id)).decode("utf-8", "backslashreplace")
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(change.name), target))
    outside = target.startswith("/") or resolved == ".." or resolved.startswith(("../", ".git/"))
    return f"symbolic link to {target}, outside the repository, dropped" if outside else ""


async def _diff(
    session: GitSession, base_tree: str, changes: Iterable[Change], wanted: list[Change]
) -> tuple[str | None, list[str]]:
    """The patch of `wanted` (None: too large) and the names of files that had to become binary hunks."""
    if not wanted:
        return "", []
    script = f'git update-index -z --index-info; {_DIFF} "$1" > "$dir/diff"'
    await session.run(script, base_tree, stdin=_reverted(changes, wanted))
    data = await session.read("diff", limit=PATCH_LIMIT)
    if data is None:
        return None, []
    sections = _sections(data)
    # A change of type (file to link) is written as two sections, a removal and an addition.
    owners = [change for change in wanted for _ in range(2 if _retyped(change) else 1)]
    unreadable = {owner for owner, section in zip(owners, sections, strict=True) if not _is_utf8(section)}
    if unreadable:
        files = [change for change in wanted if change in unreadable]
        script = f"""cp "$dir/index" "$dir/index.all"; printf '* -diff\\n' >> "$dir/info/attributes"
git update-index -z --index-info; {_DIFF} "$1" > "$dir/diff"; mv "$dir/index.all" "$dir/index" """
        await session.run(script, base_tree, stdin=_reverted(wanted, files))
        binary = iter(_sections(await session.read("diff", limit=PATCH_LIMIT) or b""))
        sections = [
            next(binary) if owner in unreadable else section for owner, section in zip(owners, sections, strict=True)
        ]
    return b"".join(sections).decode(), [change.name for change in wanted if change in unreadable]


def _retyped(change: Change) -> bool:
    return change.status == "modified" and change.old_mode[:3] != change.new_mode[:3]


def _reverted(changes: Iterable[Change], wanted: list[Change]) -> bytes:
    """Input of `update-index --index-info` that takes every change but the wanted ones back."""
    keep = {change.path for change in wanted}
    entries = [
        f"{'0' if change.status == 'added' else change.old_mode} {change.old_id}\t".encode() + change.path + b"\0"
        for change in changes
        if change.path not in keep
    ]
    return b"".join(entries)


def _sections(diff: bytes) -> list[bytes]:
    """One piece per file. Body lines never begin with a `d`, and base85 has no blank, so the split is exact."""
    marker = b"diff --git "
    pieces = (b"\n" + diff).split(b"\n" + marker)[1:]
    return [marker + piece + b"\n" for piece in pieces[:-1]] + [marker + pieces[-1]] if pieces else []


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def _verify(session: GitSession, base_tree: str, patch: str) -> list[str]:
    """A warning unless the patch, applied to the base tree, gives exactly the files it was made from."""
    if not patch:
        return []
    if normalise(patch) != patch:
        return ["the patch is not in normal form"]
    script = """want=$(git write-tree)
export GIT_INDEX_FILE=$dir/index.check
git read-tree "$1"
git apply --cached --whitespace=nowarn - || exit 0
test "$(git write-tree)" = "$want" && printf same"""
    output = await session.run(script + " || :", base_tree, stdin=patch.encode())
    return [] if output.endswith(b"same") else ["the patch does not reproduce the changed files on the base tree"]
