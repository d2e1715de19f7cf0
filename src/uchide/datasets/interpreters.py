"""Which Python interpreters this host has: the running one, those on PATH, and those that pyenv and uv keep."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from uchide.errors import EnvironmentBuildError

OLDEST = (3, 11)
"""The oldest version that may stand in for the one a row names."""

ASK = "import sys, json; print(json.dumps([sys.version.split()[0], sys._base_executable, sys.base_prefix]))"


@dataclass(frozen=True)
class Interpreter:
    """A base interpreter, never that of a virtual environment."""

    executable: Path
    version: str
    """Like `3.11.7`."""
    home: Path
    """Its base prefix; `/usr` for a distribution's own."""

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def find(wanted: str) -> Interpreter:
    """The interpreter for a row that names `wanted` (`3.11`): that version if the host has it, else the running one.

    A row on another version than its own has to pass preflight there. Raises EnvironmentBuildError when neither fits.
    """
    for candidate in _candidates(wanted):
        found = _ask(candidate)
        if found is not None and found.minor == wanted:
            return found
    running = _ask(Path(sys.executable))
    if running is None or tuple(map(int, running.minor.split("."))) < OLDEST:
        raise EnvironmentBuildError(
            f"no Python {wanted} on this host",
            hint=f"install python{wanted}, or run uchide with Python {OLDEST[0]}.{OLDEST[1]} or later",
        )
    return running


def running() -> Interpreter:
    """The base interpreter that runs this program."""
    found = _ask(Path(sys.executable))
    if found is None:
        raise EnvironmentBuildError(f"{sys.executable} does not run as a Python interpreter")
    return found


def at(executable: Path) -> Interpreter:
    """The interpreter at a path. Raises EnvironmentBuildError when there is none."""
    found = _ask(executable)
    if found is None:
        raise EnvironmentBuildError(f"{executable} does not run as a Python interpreter")
    return found


def _candidates(wanted: str) -> Iterator[Path]:
    yield Path(sys.executable)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder:
            yield Path(folder) / f"python{wanted}"
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")).expanduser()
    for root, pattern in ((pyenv, f"{wanted}.*"), (uv, f"cpython-{wanted}.*")):
        for install in _newest_first(root, pattern):
            yield install / "bin" / f"python{wanted}"


def _newest_first(root: Path, pattern: str) -> list[Path]:
    try:
        return sorted(
            root.glob(pattern), key=lambda path: [int(p) for p in path.name.split("-")[-1].split(".") if p.isdigit()]
        )[::-1]
    except OSError:
        return []


@cache
def _ask(executable: Path) -> Interpreter | None:
    """What an executable says about itself; None when it is missing, not ours to run, or no Python."""
    try:
        done = subprocess.run([executable, "-I", "-c", ASK], capture_output=True, timeout=30, check=False)
        version, base, home = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Interpreter(Path(base), str(version), Path(home))
