"""Runs git inside a sandbox on a repository that may be hostile.

Every session has a git directory of its own beside the repository's: configuration, hooks, attributes, excludes,
replaced objects, index bits and HEAD of the repository have no say. Only its objects are read, as an alternate.
"""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from uchide.errors import PatchError
from uchide.protocols import Command, Sandbox

ROOT = "/testbed"
TIMEOUT_S = 300.0

# Paths are decided by content and by our own flags; filters and encodings of the tree's attributes are not ours to run.
ATTRIBUTES = "* !diff !filter !ident !working-tree-encoding\n"

_CONFIG = {
    "core.quotepath": "true",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.excludesFile": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.hooksPath": "/dev/null",
    "core.bare": "false",
    "diff.algorithm": "myers",
    "diff.suppressBlankEmpty": "false",
    "diff.interHunkContext": "0",
    "diff.indentHeuristic": "true",
    "advice.addEmbeddedRepo": "false",
    "safe.directory": "*",
}

_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}

_GIT = "git() { /usr/bin/git " + " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in _CONFIG.items()) + ' "$@"; }'

_PRELUDE = f"""set -eu
for name in $(env | sed -n 's/^\\(GIT_[A-Za-z_0-9]*\\)=.*/\\1/p'); do unset "$name"; done
export {" ".join(f"{name}={shlex.quote(value)}" for name, value in _ENVIRONMENT.items())}
{_GIT}
"""

_OPEN = """
dir=$(mktemp -d "${TMPDIR:-/tmp}/uchide-git.XXXXXX")
mkdir -p "$dir/objects" "$dir/refs" "$dir/info"
printf 'ref: refs/heads/none\\n' > "$dir/HEAD"
printf '[core]\\nrepositoryformatversion = 0\\n' > "$dir/config"
printf '%s' "$1" > "$dir/info/attributes"
printf '%s' "$dir"
"""


@dataclass(frozen=True)
class GitSession:
    """A private git directory in a running sandbox, with the repository as its work tree."""

    sandbox: Sandbox
    folder: str
    root: str = ROOT

    async def run(self, script: str, *args: str, stdin: bytes = b"", keep_objects: bool = False) -> bytes:
        """Run a shell script in which `git` is scrubbed and `$dir` is the private directory; its output.

        With `keep_objects` new objects go to the repository's own store. Raises PatchError when the script fails.
        """
        store = f"{self.root}/.git/objects"
        own = f"{self.folder}/objects"
        setup = (
            f"dir={shlex.quote(self.folder)}\nexport HOME=$dir XDG_CONFIG_HOME=$dir GIT_DIR=$dir "
            f"GIT_WORK_TREE={shlex.quote(self.root)} GIT_INDEX_FILE=$dir/index "
            f"GIT_OBJECT_DIRECTORY={shlex.quote(store if keep_objects else own)} "
            f"GIT_ALTERNATE_OBJECT_DIRECTORIES={shlex.quote(own if keep_objects else store)}\n"
        )
        return await shell(self.sandbox, _PRELUDE + setup + script, *args, stdin=stdin, cwd=self.root)

    async def read(self, name: str, *, limit: int) -> bytes | None:
        """Bytes of a file that a script left in `$dir`; None when it is larger than `limit`."""
        path = f"{self.folder}/{name}"
        size = int(await shell(self.sandbox, 'wc -c < "$1"', path))
        return None if size > limit else await self.sandbox.read(path, limit=limit)


async def shell(sandbox: Sandbox, script: str, *args: str, stdin: bytes = b"", cwd: str = ROOT) -> bytes:
    """Output of a `/bin/sh` script. Raises PatchError with the end of the output when it does not exit with 0."""
    argv = ("/bin/sh", "-c", script, "sh", *args)
    result = await sandbox.run(Command(argv, cwd=cwd, stdin=stdin, timeout_s=TIMEOUT_S, output_limit=4_000_000))
    if result.returncode != 0:
        tail = result.output[-800:].decode("utf-8", "replace").strip()
        raise PatchError(f"git failed in {cwd} ({result.killed or result.returncode}): {tail}")
    return result.output


@asynccontextmanager
async def git_session(sandbox: Sandbox, root: str = ROOT) -> AsyncIterator[GitSession]:
    """Open a private git directory; it is removed at the end."""
    folder = (await shell(sandbox, "set -eu\n" + _OPEN, ATTRIBUTES, cwd=root)).decode()
    try:
        yield GitSession(sandbox, folder, root)
    finally:
        await sandbox.run(Command(("/bin/rm", "-rf", "--", folder), cwd="/"))


async def base_tree_of_head(sandbox: Sandbox, root: str = ROOT) -> str:
    """Tree id of the repository's HEAD commit."""
    script = _PRELUDE + 'git --git-dir="$1/.git" rev-parse --verify "HEAD^{tree}"'
    return (await shell(sandbox, script, root, cwd=root)).decode().strip()
