"""Append-only rows: one JSON line `{"id": ..., "row": {...}}` per finished row, durable before `append` returns.

Lines end with a newline byte and nothing else (the JSON is ASCII, so U+2028 and friends cannot split one). A later
line with the same id replaces an earlier one: that is how an infrastructure failure is tried again in a later session.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from uchide.errors import StoreError
from uchide.store.atomic import lfs_hint, refused, sync_folder

Notice = Callable[[str], None]


def parse_line(path: Path, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    """One line as (id, row). Raises StoreError naming file and line."""
    try:
        data = json.loads(line)
        return str(data["id"]), dict(data["row"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}:{number}: not a row: {error}", hint=lfs_hint(path)) from error


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All complete lines of a row file, in order; a half-written last line (a live writer) is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        yield parse_line(path, number, line)


def latest(path: Path) -> dict[str, dict[str, Any]]:
    """The last row of every id, in the order of their lines."""
    rows: dict[str, dict[str, Any]] = {}
    for id_, row in read_lines(path):
        rows.pop(id_, None)
        rows[id_] = row
    return rows


def repair(path: Path, notice: Notice) -> None:
    """Cut what a killed writer left after the last complete row. A broken line further up is an error, not cut."""
    if not path.exists():
        return
    data = path.read_bytes()
    keep = data.rfind(b"\n") + 1
    start = data.rfind(b"\n", 0, keep - 1) + 1 if keep else 0
    if keep and not _is_row(data[start:keep]):
        keep = start  # a torn page can leave a last line that ends well but is not a row
    if keep == len(data):
        return
    notice(f"{path.parent.name}/{path.name}: cut a half-written last row ({len(data) - keep} bytes)")
    with path.open("r+b") as file:
        file.truncate(keep)
        os.fsync(file.fileno())


def _is_row(line: bytes) -> bool:
    try:
        data = json.loads(line)
    except ValueError:
        return False
    return isinstance(data, dict) and isinstance(data.get("id"), str) and isinstance(data.get("row"), dict)


class RowFile:
    """A row file open for appending by one writer (who holds the lease of its part)."""

    def __init__(self, path: Path, notice: Notice) -> None:
        repair(path, notice)
        self.path = path
        self.rows = latest(path)
        """Last row of every id, earlier sessions included."""
        self._mine: set[str] = set()
        new = not path.exists()
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise refused(path, error) from error
        if new:
            sync_folder(path.parent)

    def append(self, id_: str, row: dict[str, Any]) -> None:
        """Write one row and wait until it is on disk. The same id twice in one session is an error."""
        if id_ in self._mine:
            raise StoreError(f"{self.path}: row {id_!r} was written twice")
        line = json.dumps({"id": id_, "row": row}, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(size)
            raise refused(self.path, error) from error
        self._mine.add(id_)
        self.rows.pop(id_, None)
        self.rows[id_] = row

    def close(self) -> None:
        self._file.close()
