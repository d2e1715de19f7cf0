"""Python interpreters of this machine, for tests of the files that run inside a sandbox."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from uchide.tools import tools_dir


def _found() -> dict[int, str]:
    """{minor version: interpreter} of Python 3.6 and newer, from PATH and pyenv."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(6, 20):
        named = shutil.which(f"python3.{minor}")
        built = sorted(pyenv.glob(f"3.{minor}.*/bin/python"))
        if built or (named and ".pyenv/shims" not in named):
            found[minor] = str(built[-1]) if built else str(named)
    return found


def interpreters() -> list:
    """This interpreter, and the oldest and newest others, as pytest parameters."""
    found = _found()
    rest = sorted({min(found), max(found)} - {sys.version_info.minor}) if found else []
    params = [pytest.param(sys.executable, id=f"3.{sys.version_info.minor}")]
    return params + [pytest.param(found[minor], id=f"3.{minor}") for minor in rest]


def tool(name: str) -> str:
    return str(tools_dir() / f"{name}.py")
