"""How much memory a process and all its descendants use, as the kernel counts it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True)
class Memory:
    """KiB of one process tree at one time."""

    own: int = 0
    """The process itself."""
    children: int = 0
    processes: int = 0
    estimated: int = 0
    """Processes whose proportional size the kernel hides from us: counted without the file pages they share."""

    @property
    def total(self) -> int:
        return self.own + self.children


def measure(pid: int, without: frozenset[int]) -> Memory:
    """The tree below `pid`, without the trees of `without`."""
    sizes = [size(process) for process in descendants(pid, without)]
    estimated = sum(hidden for _, hidden in sizes)
    return Memory(sizes[0][0], sum(kb for kb, _ in sizes[1:]), len(sizes) - 1, estimated)


def descendants(pid: int, without: frozenset[int]) -> Iterator[int]:
    """`pid` and every process below it."""
    yield pid
    for task in _entries(PROC / str(pid) / "task"):
        for child in map(int, _read(task / "children").split()):
            if child not in without:
                yield from descendants(child, without)


def size(pid: int) -> tuple[int, bool]:
    """Proportional set size in KiB, and whether it is only estimated."""
    for line in _read(PROC / str(pid) / "smaps_rollup").splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]), False
    fields = _read(PROC / str(pid) / "statm").split()
    private = (int(fields[1]) - int(fields[2])) * PAGE_KB if fields else 0
    return private, private > 0  # one that is just ending has nothing left


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it has gone meanwhile
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
