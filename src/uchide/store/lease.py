"""Leases: at most one live writer per part, and per experiment.

A lease is a file made by `link()`, which is atomic on network file systems too; file locks there are not trusted. It
names host, pid, the process's start time (a pid alone may be reused) and a heartbeat. Only a lease whose process is
gone from this host, or whose heartbeat on another host stopped long ago, is taken over.
"""

import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uchide.errors import LeaseError, StoreError
from uchide.store.atomic import refused, write_json

HEARTBEAT_S = 15.0
STALE_S = 600.0
"""A heartbeat this old on another host means its process is gone (leaves room for clocks that differ)."""


def process_start(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state == "Z" else rest[18]


def holder(path: Path) -> dict[str, Any] | None:
    """What the lease file says; None when there is none. A torn one counts as held by nobody."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def is_alive(lease: dict[str, Any]) -> bool:
    """Whether the process named by a lease still lives, as far as this host can tell."""
    if lease.get("host") == socket.gethostname():
        pid = lease.get("pid")
        return isinstance(pid, int) and process_start(pid) == lease.get("start")
    return time.time() - float(lease.get("heartbeat", 0)) < STALE_S


class Lease:
    """A held lease; `check()` raises once another process has taken it over."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self.nonce = secrets.token_hex(8)
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)

    def record(self) -> dict[str, Any]:
        pid = os.getpid()
        return {
            "host": socket.gethostname(),
            "pid": pid,
            "start": process_start(pid),
            "heartbeat": time.time(),
            "nonce": self.nonce,
            "what": self.what,
        }

    def acquire(self, wait_s: float) -> None:
        """Take the lease, waiting up to `wait_s` for a dying holder. Raises LeaseError naming a live one."""
        deadline = time.monotonic() + wait_s
        while not self._try():
            owner = holder(self.path)
            if owner is not None and is_alive(owner) and time.monotonic() >= deadline:
                who = f"process {owner.get('pid')} on {owner.get('host')}"
                raise LeaseError(
                    f"{self.what} is being written by {who}", hint="wait for it to end, or stop it, then run again"
                )
            if owner is not None and not is_alive(owner):
                self._remove_dead(owner)
                continue
            time.sleep(0.1)
        self._thread.start()

    def _try(self) -> bool:
        tmp = self.path.with_name(f".{self.path.name}.{self.nonce}")
        try:
            write_json(tmp, self.record())
            os.link(tmp, self.path)
        except FileExistsError:
            return False
        except OSError as error:
            raise refused(self.path, error) from error
        finally:
            tmp.unlink(missing_ok=True)
        return True

    def _remove_dead(self, dead: dict[str, Any]) -> None:
        """Move a dead lease away. Two takers on one host are kept apart by a lock, elsewhere by the nonce."""
        aside = self.path.with_name(f".{self.path.name}.dead.{self.nonce}")
        with _local_lock(self.path.parent):
            if (holder(self.path) or {}).get("nonce") != dead.get("nonce"):
                return
            with suppress(FileNotFoundError):
                self.path.rename(aside)
                if (holder(aside) or {}).get("nonce") != dead.get("nonce"):
                    with suppress(FileExistsError):
                        os.link(aside, self.path)  # another host was faster: give it back
        aside.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            if (holder(self.path) or {}).get("nonce") != self.nonce:
                self._lost = True
                return
            with suppress(StoreError):  # a full disk: the next beat tries again
                write_json(self.path, self.record())

    def check(self) -> None:
        """Raises LeaseError when the lease was lost (this process hung for very long)."""
        if self._lost:
            raise LeaseError(f"{self.what}: another process took over while this one stood still")

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        if (holder(self.path) or {}).get("nonce") == self.nonce:
            self.path.unlink(missing_ok=True)


@contextmanager
def _local_lock(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock a folder; the nonce still guards
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def lease(path: Path, what: str, *, wait_s: float = 0.0) -> Iterator[Lease]:
    """Hold the lease file `path` for the block. Raises LeaseError naming the live holder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused(path.parent, error) from error
    held = Lease(path, what)
    held.acquire(wait_s)
    try:
        yield held
    finally:
        held.release()
