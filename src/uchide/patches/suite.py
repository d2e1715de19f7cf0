"""Archive a session's tests: the two id lists of the share, and every changed test file by content."""

import base64
import re
from dataclasses import dataclass

from uchide.errors import SandboxError
from uchide.patches.collect import Change
from uchide.patches.git import ROOT
from uchide.protocols import Command, Sandbox
from uchide.records import FileContent, Suite
from uchide.records.instance import RunnerKind

SHARE = "/share"
MAX_IDS = 2000
MAX_FILE = 2_000_000
_MAX_LIST = 1_000_000
_MAX_ID = 4000

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class ArchivedSuite:
    """A suite and what was wrong with the material it was made from."""

    suite: Suite
    warnings: tuple[str, ...] = ()


async def archive(
    sandbox: Sandbox, changes: tuple[Change, ...], instance_id: str, runner: RunnerKind, *, share: str = SHARE
) -> ArchivedSuite:
    """The suite that a session leaves behind. Malformed lists and odd files are warnings, never errors."""
    warnings: list[str] = []
    files = [file for change in changes if (file := await _content(sandbox, change, warnings))]
    fail_to_pass = await _ids(sandbox, f"{share}/fail_to_pass.txt", runner, warnings)
    pass_to_pass = await _ids(sandbox, f"{share}/pass_to_pass.txt", runner, warnings)
    if both := set(fail_to_pass) & set(pass_to_pass):
        warnings.append(f"{len(both)} ids in both lists count as fail_to_pass, e.g. {min(both)}")
        pass_to_pass = [test for test in pass_to_pass if test not in both]
    suite = Suite(
        instance_id=instance_id,
        files=tuple(files),
        fail_to_pass=tuple(fail_to_pass),
        pass_to_pass=tuple(pass_to_pass),
    )
    return ArchivedSuite(suite, tuple(warnings))


async def _content(sandbox: Sandbox, change: Change, warnings: list[str]) -> FileContent | None:
    """The changed file as it is now; None (with a warning) when a suite cannot carry it."""
    try:
        path = change.path.decode()
    except UnicodeDecodeError:
        warnings.append(f"{change.name}: its name is not UTF-8, left out of the suite")
        return None
    if path.endswith("conftest.py"):
        warnings.append(f"{path}: a suite that changes conftest.py needs review")
    if change.status == "deleted":
        return FileContent(path=path, data=None)
    if change.new_mode == "120000":
        warnings.append(f"{path}: a symbolic link, left out of the suite")
        return None
    try:
        data = await sandbox.read(f"{ROOT}/{path}", limit=MAX_FILE)
    except (FileNotFoundError, SandboxError) as error:
        warnings.append(f"{path}: left out of the suite ({error})")
        return None
    executable = change.new_mode == "100755"
    try:
        return FileContent(path=path, data=data.decode(), executable=executable)
    except UnicodeDecodeError:
        return FileContent(path=path, data=base64.b64encode(data).decode(), base64=True, executable=executable)


async def _ids(sandbox: Sandbox, path: str, runner: RunnerKind, warnings: list[str]) -> list[str]:
    """Distinct well-formed ids of one list, in order. An id is a whole line: it may hold blanks."""
    name = path.rpartition("/")[2]
    text = (await read_text(sandbox, path, limit=_MAX_LIST)) or ""
    ids: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        test = line.strip()
        if not test or test.startswith("#") or test in ids:
            continue
        if reason := _malformed(test, runner):
            warnings.append(f"{name}:{number}: {reason}: {test[:200]!r}")
        else:
            ids[test] = None
    if len(ids) > MAX_IDS:
        warnings.append(f"{name}: {len(ids)} ids, only the first {MAX_IDS} are kept")
    listed = list(ids)[:MAX_IDS]
    gone = await _without_file(sandbox, listed) if runner == "pytest" else set()
    warnings.extend(f"{name}: no such file: {file}" for file in sorted(gone))
    return [test for test in listed if test.partition("::")[0] not in gone]


def _malformed(test: str, runner: RunnerKind) -> str:
    if len(test) > _MAX_ID or _CONTROL.search(test) or "\ufffd" in test:
        return "not a test id"
    if runner != "pytest":
        return "" if _DOTTED.fullmatch(test) else "not a dotted test id"
    path, separator, rest = test.partition("::")
    if not separator or not rest or path.startswith(("/", "-")) or ".." in path.split("/"):
        return "not a pytest node id (path::name)"
    return ""


async def _without_file(sandbox: Sandbox, ids: list[str]) -> set[str]:
    """The files named by `ids` that are not in the work tree."""
    files = sorted({test.partition("::")[0] for test in ids})
    script = 'while IFS= read -r file; do [ -f "./$file" ] || printf "%s\\n" "$file"; done'
    result = await sandbox.run(
        Command(("/bin/sh", "-c", script), cwd=ROOT, stdin="".join(f + "\n" for f in files).encode())
    )
    return set(result.output.decode("utf-8", "replace").splitlines()) & set(files)


async def read_text(sandbox: Sandbox, path: str, *, limit: int) -> str | None:
    """The first `limit` bytes of a regular file as text (bad bytes replaced); None where there is none."""
    script = '[ -f "$1" ] || exit 3; head -c "$2" -- "$1" 2>/dev/null'
    argv = ("/bin/sh", "-c", script, "sh", path, str(limit))
    result = await sandbox.run(Command(argv, cwd="/", timeout_s=30, output_limit=limit + 1))
    return result.output.decode("utf-8", "replace") if result.returncode == 0 else None
