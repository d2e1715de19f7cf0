"""What an artifact says about itself.

`manifest.json` holds only what is reproducible and is written last. `files.json` holds the checksum of every byte, for
`verify`. `run.json` holds what differs from run to run; nothing depends on it.
"""

import os
import platform
import resource
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, ValidationError

from uchide import __version__
from uchide.errors import StoreError
from uchide.records import Record, digest
from uchide.store.atomic import lfs_hint

MANIFEST, FILES, RUN, LEASE = "manifest.json", "files.json", "run.json", "lease.json"
R = TypeVar("R", bound=Record)
RESERVED = frozenset({MANIFEST, FILES, RUN, LEASE})


class Identity(Record):
    """Which artifact this is: all of it known before the work starts."""

    stage: str
    part: str = ""
    """E.g. `generate.main.r01_s1001.s000`; empty for a stage's own artifact, which lists its parts."""
    key: str
    calm: str
    stem: str = ""
    """`calm` without the instance set."""
    dataset: str = ""
    """Digest of the dataset's files."""
    instances: str = ""
    """`instance_set()` of the ids covered."""
    n_instances: int = 0

    @property
    def kind(self) -> str:
        return self.part.partition(".")[0]

    @property
    def name(self) -> str:
        """Folder name in the store."""
        return "-".join(item for item in (self.stage, self.part, self.key) if item)


def instance_set(ids: tuple[str, ...]) -> str:
    """Digest of a set of instance ids, whatever their order."""
    return digest(sorted(ids))[:16]


class RowsEntry(Record):
    """A row file: its record class (of `uchide.records`), its length, and the digest over its stable columns."""

    model: str
    count: int
    content_digest: str


class Manifest(Record):
    """The last file written. `content_digest` covers rows, stable files and children, and no times or hosts."""

    schema_version: Literal[1] = 1
    identity: Identity
    inputs: dict[str, str] = Field(default_factory=dict)
    """Artifact name -> its content digest when it was read."""
    rows: dict[str, RowsEntry] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    """Side files that are part of the content: path -> SHA-256."""
    children: dict[str, str] = Field(default_factory=dict)
    """Artifact name -> content digest."""
    content_digest: str

    @property
    def stage(self) -> str:
        return self.identity.stage

    @property
    def part(self) -> str:
        return self.identity.part


def content_digest(rows: dict[str, RowsEntry], files: dict[str, str], children: dict[str, str]) -> str:
    """Children enter by content alone: their names hold keys, which differ between equal contents."""
    return digest(
        {
            "rows": {name: [entry.count, entry.content_digest] for name, entry in rows.items()},
            "files": files,
            "children": sorted(children.values()),
        }
    )


class Session(Record):
    """One process that worked on a part. A killed one has no end."""

    host: str
    pid: int
    start: str
    end: str | None = None
    code: str = ""
    """Digest of the stage's code."""
    cpu_seconds: float = 0.0
    python: str = ""
    uchide: str = ""


class RunInfo(Record):
    """How an artifact came to be."""

    sessions: tuple[Session, ...] = ()
    codes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Part kind -> digests of the code that made it; of a stage's own artifact: of all its parts."""
    cpu_seconds: float = 0.0
    reused_from: str = ""


def begin_session(code: str) -> Session:
    return Session(
        host=socket.gethostname(),
        pid=os.getpid(),
        start=now(),
        code=code,
        python=platform.python_version(),
        uchide=__version__,
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def process_cpu_seconds() -> float:
    """CPU seconds of this process and of its children that ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def load_record(path: Path, model: type[R]) -> R:
    """A JSON document of an artifact. Raises StoreError naming the file and the first wrong field."""
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise StoreError(f"{path.parent.name}: {path.name} is missing", hint=f"looked for {path}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        raise StoreError(f"{path}: {where}: {first['msg']}", hint=lfs_hint(path)) from error
