"""The work tree of a sandbox before tests run: apply a patch but for what it may not touch, lay test files by content.

Everything here runs before any code of the patch does, and in Git's index first: what is refused never reaches the
work tree, so nothing has to be undone.
"""

import base64
from collections.abc import Iterable
from pathlib import PurePosixPath

from uchide.errors import PatchError, SandboxError
from uchide.protocols import Command, ExecResult, Sandbox
from uchide.records import FileContent
from uchide.testing.guard import SUBMODULE, Change, Guard, importable

GIT = (
    "git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
    "-c", "core.autocrlf=false", "-c", "core.trustctime=false", "-c", "core.checkStat=minimal",
)  # fmt: skip
GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


async def apply_patch(sandbox: Sandbox, patch: str, guard: Guard) -> tuple[str, ...]:
    """Apply a normalised `patch` to `/testbed` without what `guard` refuses; the refused paths.

    Raises PatchError when it does not apply as a whole, SandboxError when Git does not work in the sandbox.
    """
    changes = await stage_patch(sandbox, patch)
    refused = {change.path for change in changes if guard.refuses(change)}
    refused |= await shadowing(sandbox, changes, guard.import_roots)
    kept = [change for change in changes if change.path not in refused]
    deleted = [change.path for change in kept if change.kind == "D"]
    written = [change.path for change in kept if change.kind != "D" and change.mode != SUBMODULE]
    if deleted:
        await git_ok(sandbox, ("xargs", "-0", "rm", "-rf", "--"), zero(deleted))
        folders = sorted({path.rpartition("/")[0] for path in deleted} - {""})
        await _git(sandbox, ("xargs", "-0", "-r", "rmdir", "-p", "--ignore-fail-on-non-empty", "--"), zero(folders))
    if written:
        await git_ok(sandbox, (*GIT, "checkout-index", "-f", "-z", "--stdin"), zero(written))
    return tuple(sorted(refused))


async def stage_patch(sandbox: Sandbox, patch: str) -> tuple[Change, ...]:
    """Apply `patch` to Git's index only; what it changes. Raises like `apply_patch`."""
    try:
        data = patch.encode()
    except UnicodeEncodeError as error:
        raise PatchError(f"the patch is not text: {error}") from error
    await git_ok(sandbox, (*GIT, "read-tree", "HEAD"))
    applied = await _git(sandbox, (*GIT, "apply", "--cached", "--whitespace=nowarn", "-"), data)
    if applied.returncode != 0:
        await git_ok(sandbox, (*GIT, "rev-parse", "--verify", "--quiet", "HEAD^{tree}"))
        raise PatchError("the patch does not apply to the base tree: " + _first_lines(applied.output))
    listing = (*GIT, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "HEAD")
    return parse_raw((await git_ok(sandbox, listing)).output)


async def shadowing(sandbox: Sandbox, changes: Iterable[Change], roots: Iterable[str]) -> set[str]:
    """Added paths that would be imported in place of an installed or standard module (`pytest.py`, `json/`, ...)."""
    found: set[str] = set()
    installed: frozenset[str] | None = None
    added = [change.path for change in changes if change.kind == "A"]
    for root in roots:
        names = {path: name for path in added if (name := importable(path, root))}
        if not names:
            continue
        here = (f"{root}/",) if root else ()
        listing = await git_ok(sandbox, (*GIT, "ls-tree", "--name-only", "-z", "HEAD", *here))
        known = {name.rpartition("/")[2].partition(".")[0] for name in listing.output.decode().split("\0")}
        names = {path: name for path, name in names.items() if name not in known}
        if names and installed is None:
            installed = await installed_modules(sandbox)
        found |= {path for path, name in names.items() if name in (installed or ())}
    return found


async def installed_modules(sandbox: Sandbox) -> frozenset[str]:
    """Top-level modules of the environment and the standard library."""
    program = "import pkgutil; print(*(module.name for module in pkgutil.iter_modules()))"
    listing = await git_ok(sandbox, ("python", "-I", "-c", program))
    return frozenset(listing.output.decode().split())


async def lay_files(sandbox: Sandbox, files: Iterable[FileContent]) -> None:
    """Write these files into `/testbed` by content, over whatever stands there; remove those without content."""
    files = tuple(files)
    for file in files:
        check_path(file.path)
    if files:
        await git_ok(sandbox, ("xargs", "-0", "rm", "-rf", "--"), zero([file.path for file in files]))
    for file in files:
        if file.data is not None:
            await sandbox.write(f"/testbed/{file.path}", content(file), executable=file.executable)


async def snapshot(sandbox: Sandbox) -> None:
    """Remember the tree as it is now, for `restore`."""
    await git_ok(sandbox, (*GIT, "add", "-A", "-f", "."))


async def restore(sandbox: Sandbox) -> bool:
    """Put back every file of the snapshot and remove the others; False when the tests have made that impossible.

    What a test left running or in /tmp stays.
    """
    for argv in (("checkout-index", "-a", "-f", "-q"), ("clean", "-ffdxq")):
        if (await _git(sandbox, (*GIT, *argv))).returncode != 0:
            return False
    return True


def content(file: FileContent) -> bytes:
    """The bytes of a file that is not removed."""
    data = file.data or ""
    return base64.b64decode(data) if file.base64 else data.encode("utf-8", "surrogatepass")


def check_path(path: str) -> None:
    """Raises PatchError unless `path` is relative, plain and outside `.git`."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or ".git" in parts or "\0" in path or "\n" in path:
        raise PatchError(f"not a path inside the repository: {path!r}")


def parse_raw(data: bytes) -> tuple[Change, ...]:
    """`git diff-index --raw -z --no-renames` as changes."""
    fields = data.split(b"\0")
    changes = []
    for head, name in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, _, _, kind = head.decode("ascii").split(" ")
        changes.append(Change(path=name.decode("utf-8", "surrogateescape"), kind=kind[0], mode=mode))
    return tuple(changes)


def zero(paths: Iterable[str]) -> bytes:
    """Paths, each ended by NUL, for `xargs -0` and `git --stdin -z`."""
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)


async def git_ok(sandbox: Sandbox, argv: tuple[str, ...], stdin: bytes = b"") -> ExecResult:
    """Run a command of ours that must succeed in a sandbox that works. Raises SandboxError."""
    ended = await _git(sandbox, argv, stdin)
    if ended.returncode != 0 or ended.omitted:
        words = " ".join(word for word in argv if word != "-c" and "=" not in word)
        raise SandboxError(f"`{words}` failed in the sandbox: {ended.killed or _first_lines(ended.output)}")
    return ended


async def _git(sandbox: Sandbox, argv: tuple[str, ...], stdin: bytes = b"") -> ExecResult:
    return await sandbox.run(Command(argv, env=GIT_ENV, stdin=stdin, timeout_s=300, output_limit=16_000_000))


def _first_lines(output: bytes) -> str:
    return " / ".join(output.decode("utf-8", "replace").strip().splitlines()[:4])[:500] or "no output"
