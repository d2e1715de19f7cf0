"""The reading list of GATHER_CONTEXT: what failing output names, the queue itself, and the notes made into a bundle."""

import builtins
import posixpath
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from uchide.agents.blueprint.state import ContextBundle, ContextFile, GatherQueue, Note
from uchide.patches import is_test_path
from uchide.patches.git import ROOT
from uchide.protocols import Command, Sandbox

_PYTHON_FRAME = re.compile(r'^\s*File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_PYTEST_FRAME = re.compile(r"^(?P<path>[^\s:][^:\n]*\.pyx?):(?P<line>\d+): ", re.MULTILINE)
_ASSERTION = re.compile(
    r"^[E>]?[ \t]*(?:assert\b|self\.assert\w+|AssertionError\b|\+[ \t]+where\b)(?P<rest>.*)$", re.MULTILINE
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_COMMON = frozenset(dir(builtins))
_DEFINITION = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):")
MAX_NAMES = 12
MAX_SEEDS = 12


def frames(output: str) -> list[tuple[str, int]]:
    """(path as written, line) of every Python traceback frame and pytest frame, in order."""
    found = [*_PYTHON_FRAME.finditer(output), *_PYTEST_FRAME.finditer(output)]
    return [(match["path"].strip(), int(match["line"])) for match in sorted(found, key=lambda match: match.start())]


def asserted_names(output: str) -> list[str]:
    """Functions and classes that the assert lines of failing output call, without Python's own."""
    names = [name for match in _ASSERTION.finditer(output) for name in _CALLED.findall(match["rest"])]
    return [name for name in dict.fromkeys(names) if name not in _COMMON and not name.startswith(("test_", "assert"))]


def plain(path: str) -> str:
    """A path relative to the repository, as the queue keeps it."""
    return posixpath.normpath(path.strip()).removeprefix(f"{ROOT}/")


async def existing(sandbox: Sandbox, paths: Iterable[str]) -> list[str]:
    """Those of the paths that are files of the repository, in order."""
    wanted = [path for path in dict.fromkeys(paths) if path and "\n" not in path and "\0" not in path]
    if not wanted:
        return []
    script = """root=$(pwd -P)
while IFS= read -r path; do
  [ -f "$path" ] || continue
  case $(realpath -- "$path") in "$root"/.git/*) ;; "$root"/*) printf '%s\\n' "$path";; esac
done; :"""
    stdin = "".join(f"{path}\n" for path in wanted).encode("utf-8", "surrogateescape")
    done = await sandbox.run(Command(("/bin/sh", "-c", script), cwd=ROOT, stdin=stdin, timeout_s=60))
    there = set(done.output.decode("utf-8", "replace").splitlines())
    return [path for path in wanted if path in there]


async def seeded(sandbox: Sandbox, outputs: Sequence[str]) -> GatherQueue:
    """A queue of the repository's files that failing output names: innermost frames first, tests at the end."""
    lines: dict[str, list[int]] = {}
    why: dict[str, str] = {}
    for output in outputs:
        for path, line in reversed(frames(output)):
            lines.setdefault(plain(path), []).append(line)
            why.setdefault(plain(path), "named in a traceback of a failing test")
    names = [name for output in outputs for name in asserted_names(output)]
    for name, path, line in await _definitions(sandbox, list(dict.fromkeys(names))[:MAX_NAMES]):
        lines.setdefault(path, []).append(line)
        why.setdefault(path, f"defines `{name}`, which a failing assertion calls")
    there = await existing(sandbox, lines)
    order = sorted(there, key=is_test_path)[:MAX_SEEDS]
    return GatherQueue(
        queue=tuple(order),
        seen=tuple(order),
        lines={path: tuple(sorted(set(lines[path]))) for path in order},
        why={path: why[path] for path in order},
    )


async def _definitions(sandbox: Sandbox, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """(name, path, line) of the definitions of these functions and classes."""
    found = []
    for name in names:
        pattern = rf"^[[:space:]]*(async[[:space:]]+def|def|class)[[:space:]]+{name}\b"
        argv = ("/bin/sh", "-c", 'grep -rnE --include=*.py -- "$1" . | sort | head -n 5', "sh", pattern)
        done = await sandbox.run(Command(argv, cwd=ROOT, timeout_s=60, output_limit=100_000))
        for row in done.output.decode("utf-8", "replace").splitlines():
            if match := _DEFINITION.match(row):
                found.append((name, plain(match["path"]), int(match["line"])))
    return found


def enqueue(queue: GatherQueue, path: str, why: str) -> GatherQueue:
    """With `path` at its end, unless it was ever there."""
    if path in queue.seen:
        return queue
    return queue.model_copy(
        update={"queue": (*queue.queue, path), "seen": (*queue.seen, path), "why": {**queue.why, path: why}}
    )


def dequeue(queue: GatherQueue) -> GatherQueue:
    """With the first file as `current` (None when there is none)."""
    current = queue.queue[0] if queue.queue else None
    return queue.model_copy(update={"queue": queue.queue[1:], "current": current})


def noted(queue: GatherQueue, note: Note) -> GatherQueue:
    """With one more note."""
    return queue.model_copy(update={"notes": (*queue.notes, note)})


def bundle(queue: GatherQueue, earlier: ContextBundle) -> ContextBundle:
    """The relevant notes of now and before: grouped by file, by line in each. A file that was found irrelevant since
    loses what was noted before."""
    gone = {note.path for note in queue.notes if not note.relevant}
    gone -= {note.path for note in queue.notes if note.relevant}
    before = [note for file in earlier.files for note in file.notes if file.path not in gone]
    whys = {file.path: file.why for file in earlier.files} | queue.why
    notes = dict.fromkeys([*before, *(note for note in queue.notes if note.relevant)])
    ordered = sorted(notes, key=lambda note: (note.path, note.line))
    return ContextBundle(
        files=tuple(
            ContextFile(path=path, why=whys.get(path, "found while reading"), notes=tuple(group))
            for path, group in groupby(ordered, key=lambda note: note.path)
        )
    )
