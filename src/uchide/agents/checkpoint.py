"""What a killed rollout goes on from: its state, tree, share, totals and records so far, in one SQLite file.

A finished node is one transaction, so a kill at any moment leaves the last finished node. The file belongs to one task
on this host (mode 0600: its texts are not redacted) and is worth nothing to another: what is damaged or foreign is
replaced, and `notice` says so.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from uchide.agents.session import Session
from uchide.agents.trajectory import TrajectoryRecord
from uchide.errors import StoreError
from uchide.records import Record, Usage

_TABLES = """
CREATE TABLE IF NOT EXISTS task (identity TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS node (
    number INTEGER PRIMARY KEY, state TEXT NOT NULL, counters TEXT NOT NULL, records BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY, data BLOB NOT NULL);
"""
_RECORDS: TypeAdapter[list[TrajectoryRecord]] = TypeAdapter(list[TrajectoryRecord])


class Counters(Record):
    """The running totals of a session."""

    turns: int
    format_errors: int
    usage: Usage
    known_cost: float
    phases: tuple[str, ...]
    warnings: tuple[str, ...]
    elapsed_s: float

    @classmethod
    def of(cls, session: Session) -> "Counters":
        return cls(
            turns=session.turns,
            format_errors=session.format_errors,
            usage=session.usage,
            known_cost=session.known_cost,
            phases=tuple(session.phases),
            warnings=tuple(session.warnings),
            elapsed_s=session.elapsed(),
        )

    def give(self, session: Session) -> None:
        """To a session that has just begun."""
        session.turns, session.format_errors, session.usage = self.turns, self.format_errors, self.usage
        session.known_cost = self.known_cost
        session.phases[:] = self.phases
        session.warnings[:] = self.warnings
        session.started -= self.elapsed_s


_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM,
    }
)
"""Failures of the host that say nothing against what the file holds."""


@dataclass(frozen=True)
class Saved:
    """A rollout as of its last finished node. `state` is JSON data of the agent, `files` whatever it stored by name,
    `records` those of all nodes so far, without the header."""

    state: dict[str, Any]
    counters: Counters
    files: Mapping[str, bytes]
    records: tuple[TrajectoryRecord, ...]


class Checkpoint:
    """The file of one task; `identity` is a digest of everything that decides what the rollout does."""

    def __init__(self, path: Path, identity: str) -> None:
        self.notice = ""
        self._path = path
        self._identity = identity
        self._database = self._connect()

    def load(self) -> Saved | None:
        """The last finished node; None where there is none, or none that can be used."""
        try:
            with self._database:
                self._database.executescript(_TABLES)
                owner = self._database.execute("SELECT identity FROM task").fetchone()
                if owner is None:
                    self._database.execute("INSERT INTO task (identity) VALUES (?)", (self._identity,))
            if owner is None or owner[0] == self._identity:
                return self._last()
            reason = "another task wrote it"
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _PASSING:
                raise self._unreadable(error) from error
            reason = f"it is damaged ({type(error).__name__})"
        except (sqlite3.DatabaseError, zlib.error, ValidationError, ValueError, TypeError) as error:
            reason = f"it is damaged ({type(error).__name__})"
        self.discard(reason)
        return None

    def save(
        self,
        state: Mapping[str, Any],
        counters: Counters,
        files: Mapping[str, bytes],
        records: Sequence[TrajectoryRecord],
    ) -> None:
        """A node is finished: `records` are those since the last save, everything else is as it stands now. Raises
        StoreError when it cannot be written."""
        packed = zlib.compress(_RECORDS.dump_json(list(records)), 1)
        try:
            with self._database:
                self._database.execute("DELETE FROM files")
                self._database.executemany(
                    "INSERT INTO files (name, data) VALUES (?, ?)",
                    [(name, zlib.compress(data, 1)) for name, data in files.items()],
                )
                self._database.execute(
                    "INSERT INTO node (state, counters, records) VALUES (?, ?, ?)",
                    (json.dumps(dict(state)), counters.model_dump_json(), packed),
                )
        except sqlite3.Error as error:
            raise self._unwritable(error) from error

    def discard(self, reason: str) -> None:
        """Begin anew, because of what is in the file."""
        self.notice = f"the checkpoint could not be used, the rollout began anew: {reason}"
        self._database.close()
        try:
            for suffix in ("", "-journal", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._database = self._connect()
            with self._database:
                self._database.executescript(_TABLES)
                self._database.execute("INSERT INTO task (identity) VALUES (?)", (self._identity,))
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        self._database.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            return sqlite3.connect(self._path)
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error

    def _last(self) -> Saved | None:
        with closing(self._database.execute("SELECT state, counters, records FROM node ORDER BY number")) as found:
            rows = found.fetchall()
        if not rows:
            return None
        files = self._database.execute("SELECT name, data FROM files").fetchall()
        return Saved(
            state=json.loads(rows[-1][0]),
            counters=Counters.model_validate_json(rows[-1][1]),
            files={name: zlib.decompress(data) for name, data in files},
            records=tuple(_unpacked(row[2] for row in rows)),
        )

    def _unreadable(self, error: Exception) -> StoreError:
        return StoreError(
            f"cannot read the checkpoint {self._path}: {error}",
            hint="see that nothing else holds the file and that its disk is well, then run the same command again",
        )

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"cannot write the checkpoint {self._path}: {error}",
            hint="free some space or fix the permissions, then run the same command again: finished nodes are kept",
        )


def _unpacked(blobs: Iterable[bytes]) -> Iterable[TrajectoryRecord]:
    for blob in blobs:
        yield from _RECORDS.validate_json(zlib.decompress(blob))
