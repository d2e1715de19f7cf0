"""The share: the durable state of a rollout outside the repository, with memos and an incremental archive."""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Sequence

from uchide.agents.phases.spec import DIFF
from uchide.agents.trajectory import ShareFile
from uchide.errors import PatchError
from uchide.patches import changed_files, is_artefact
from uchide.protocols import Command, Sandbox

SHARE = "/share"
TEXT_LIMIT = 65_536
"""Bytes of a file that an archive keeps as text."""

# Files that must not be missed come first: those named in the arguments, then what looks like a memo or a list.
_LIST = r"""{ [ $# = 0 ] || find "$@" -maxdepth 0 -type f -printf '%s %p\0'
find . -maxdepth 1 -type f \( -name '*.md' -o -name '*.txt' \) -printf '%s %p\0'
find . -maxdepth 1 -type f -printf '%s %p\0'; find . -mindepth 2 -type f -printf '%s %p\0'
} 2>/dev/null | head -z -n 6000"""
_PACK = "exec tar --null --no-recursion --verbatim-files-from -T - -cf - 2>/dev/null"
_OUTPUT_LIMIT = 16_000_000
_LISTED, _READ = 5000, 500
_ROOM, _OVERHEAD = 15_000_000, 3072
"""Bytes of an archive, and of a member beside its contents and name: less than the output limit, so none is cut."""
_ABSENT = r"""for name; do { [ -f "$name" ] && grep -q '[^[:space:]]' -- "$name"; } || printf '%s\0' "$name"; done"""


class Share:
    """What we know of the share's files; `update` looks again."""

    def __init__(self, sandbox: Sandbox, first: Iterable[str] = ()) -> None:
        """`first`: names of files that are read before all others."""
        self._sandbox = sandbox
        self._first = tuple(first)
        self._files: dict[str, ShareFile] = {}
        self._archived: dict[str, str] = {}
        self._unsaved: dict[str, str] = {}

    async def update(self) -> None:
        """Look at the files as they are now, reading as many as there is room for: memos and products first."""
        command = ("/bin/sh", "-c", _LIST, "sh", *(f"./{name}" for name in self._first))
        sizes = _sizes(await self._output(command))
        wanted = b"".join(b"./" + path + b"\0" for path in _fitting(sizes))
        contents = _members(await self._output(("/bin/sh", "-c", _PACK), wanted)) if wanted else {}
        self._files = {}
        for raw, size in sorted(sizes.items()):
            path, data = raw.decode("utf-8", "backslashreplace"), contents.get(raw)
            sha = hashlib.sha256(data).hexdigest() if data is not None else ""
            self._files[path] = ShareFile(path=path, size=size, sha256=sha, text=_text(data))

    async def _output(self, argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
        command = Command(argv, cwd=SHARE, stdin=stdin, timeout_s=60, output_limit=_OUTPUT_LIMIT)
        return (await self._sandbox.run(command)).output

    async def archive(self) -> tuple[ShareFile, ...]:
        """Every file as it is now; `text` only where it changed since the last archive."""
        await self.update()
        before, self._archived = self._archived, {path: file.sha256 for path, file in self._files.items()}
        return tuple(
            file.model_copy(update={"text": None}) if before.get(path) == file.sha256 else file
            for path, file in self._files.items()
        )

    def listing(self) -> list[ShareFile]:
        """All files of the last update, by path."""
        return list(self._files.values())

    def memos(self, phases: Iterable[str]) -> list[tuple[str, str]]:
        """(phase, text) of every handover memo there is."""
        return [(phase, text) for phase in phases if (text := self.memo(phase))]

    def memo(self, phase: str) -> str:
        """Text of a phase's memo as of the last update; empty when there is none."""
        file = self._files.get(f"{phase}.md")
        return (file.text if file else None) or self._unsaved.get(phase, "")

    async def write_memo(self, phase: str, text: str) -> None:
        """Put a memo into the share. It is kept in memory where the agent has made the share unwritable."""
        data = text.rstrip("\n") + "\n"
        argv = ("/bin/sh", "-c", 'cat > "$1"', "sh", f"{SHARE}/{phase}.md")
        done = await self._sandbox.run(Command(argv, cwd="/", stdin=data.encode(), timeout_s=60))
        self._unsaved[phase] = "" if done.returncode == 0 else data

    async def missing(self, due: Sequence[str], base_tree: str) -> tuple[str, ...]:
        """The products of `due` that are absent or blank."""
        names = [name for name in due if name != DIFF]
        absent = await self._blank(names) if names else set()
        if DIFF in due and not await _has_diff(self._sandbox, base_tree):
            absent.add(DIFF)
        return tuple(name for name in due if name in absent)

    async def _blank(self, names: list[str]) -> set[str]:
        result = await self._sandbox.run(Command(("/bin/sh", "-c", _ABSENT, "sh", *names), cwd=SHARE, timeout_s=60))
        found = set(result.output.decode("utf-8", "replace").split("\0"))
        return found if result.returncode == 0 else set(names)


async def _has_diff(sandbox: Sandbox, base_tree: str) -> bool:
    try:
        changes = await changed_files(sandbox, base_tree)
    except PatchError:
        return False
    return any(not change.is_test and not is_artefact(change.name) for change in changes)


def _sizes(listing: bytes) -> dict[bytes, int]:
    """Size by path, in the order of the listing."""
    sizes: dict[bytes, int] = {}
    for entry in listing.split(b"\0")[:-1]:
        size, _, path = entry.partition(b" ")
        if size.isdigit() and len(sizes) < _LISTED:
            sizes.setdefault(path.removeprefix(b"./"), int(size))
    return sizes


def _fitting(sizes: dict[bytes, int]) -> list[bytes]:
    """The files to read: small ones, in their order, as far as there is room."""
    chosen: list[bytes] = []
    left = _ROOM
    for path, size in sizes.items():
        cost = size + len(path) + _OVERHEAD
        if size <= TEXT_LIMIT and cost <= left and len(chosen) < _READ:
            chosen.append(path)
            left -= cost
    return chosen


def _members(archive: bytes) -> dict[bytes, bytes]:
    """Contents by path. An archive that was cut gives the members before the cut."""
    members: dict[bytes, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:", errors="surrogateescape") as tar:
            for member in tar:
                if member.isreg() and (file := tar.extractfile(member)):
                    members[member.name.removeprefix("./").encode("utf-8", "surrogateescape")] = file.read()
    except tarfile.TarError:
        return members
    return members


def _text(data: bytes | None) -> str | None:
    if data is None or len(data) > TEXT_LIMIT:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
