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

# The listing ends at the first empty entry; the archive of the small files follows.
_READ = r"""find . -type f -printf '%s %P\0' 2>/dev/null | head -z -n 5000; printf '\0'
find . -type f -size -65k -print0 2>/dev/null | head -z -n 500 | tar --null --no-recursion -T - -cf - 2>/dev/null"""
_READ_LIMIT = 16_000_000
_ABSENT = r"""for name; do { [ -f "$name" ] && grep -q '[^[:space:]]' -- "$name"; } || printf '%s\0' "$name"; done"""


class Share:
    """What we know of the share's files; `update` looks again."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._files: dict[str, ShareFile] = {}
        self._archived: dict[str, str] = {}
        self._unsaved: dict[str, str] = {}

    async def update(self) -> None:
        """Read every file as it is now."""
        command = Command(("/bin/sh", "-c", _READ), cwd=SHARE, timeout_s=60, output_limit=_READ_LIMIT)
        listing, archive = _split((await self._sandbox.run(command)).output)
        sizes, contents = _sizes(listing), _members(archive)
        self._files = {}
        for path in sorted(sizes):
            data = contents.get(path)
            sha = hashlib.sha256(data).hexdigest() if data is not None else ""
            self._files[path] = ShareFile(path=path, size=sizes[path], sha256=sha, text=_text(data))

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


def _split(output: bytes) -> tuple[bytes, bytes]:
    """The listing with its final NUL, and the archive."""
    end = 0
    while end < len(output) and output[end] != 0:
        end = output.find(b"\0", end) + 1 or len(output)
    return output[:end], output[end + 1 :]


def _sizes(listing: bytes) -> dict[str, int]:
    sizes = {}
    for entry in listing.split(b"\0")[:-1]:
        size, _, path = entry.partition(b" ")
        if size.isdigit():
            sizes[path.decode("utf-8", "backslashreplace")] = int(size)
    return sizes


def _members(archive: bytes) -> dict[str, bytes]:
    """Contents by path. An archive that was cut gives the members before the cut."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:", errors="surrogateescape") as tar:
            for member in tar:
                if member.isreg() and (file := tar.extractfile(member)):
                    path = member.name.removeprefix("./").encode("utf-8", "surrogateescape")
                    members[path.decode("utf-8", "backslashreplace")] = file.read()
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
