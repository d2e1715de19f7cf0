"""Environments of repositories: virtual environments named by what went into them, built once, kept in the cache.

`<cache>/envs/<key>/` is laid out for the path `/env`. It is built beside its final place and renamed when whole, so
half an environment is never found; a failed build leaves only its log.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from uchide.datasets.interpreters import Interpreter
from uchide.errors import EnvironmentBuildError
from uchide.paths import cache_dir
from uchide.records import digest
from uchide.store.lease import lease

RECIPE = 1
"""Raise when the way of building changes, so that old environments are no longer found."""
FACTS = "uchide-environment.json"
WAIT_S = 1800.0


@dataclass(frozen=True)
class BuiltEnvironment:
    """A built environment in the cache."""

    root: Path
    """Mounted read-only at `/env`."""
    python_home: Path
    """Base prefix of its interpreter, mounted at the same path; `/usr` for a distribution's own Python."""
    version: str
    """Like `3.11.7`."""


def environment_key(interpreter: Interpreter, pins: tuple[str, ...], *, how: str) -> str:
    """The name of an environment: everything that decides its content. `how` names the recipe and its version."""
    return digest([RECIPE, how, interpreter.version, str(interpreter.home), sorted(pins)])[:32]


def envs_dir() -> Path:
    return cache_dir() / "envs"


def locate(key: str) -> BuiltEnvironment:
    """A built environment by key. Raises EnvironmentBuildError when this host's cache does not hold it."""
    root = envs_dir() / key
    try:
        facts = json.loads((root / FACTS).read_text())
    except (OSError, ValueError):
        raise EnvironmentBuildError(
            f"environment {key} is not in {root.parent}", hint="run the prepare stage on this host"
        ) from None
    return BuiltEnvironment(root, Path(facts["python_home"]), facts["version"])


def is_built(key: str) -> bool:
    return (envs_dir() / key / FACTS).is_file()


@asynccontextmanager
async def building(key: str, interpreter: Interpreter, pins: tuple[str, ...]) -> AsyncIterator[Path]:
    """An empty environment to fill; leaving without an error moves it to its place. For use inside `build_lease`."""
    folder = envs_dir()
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=folder))
    try:
        _skeleton(partial, interpreter)
        yield partial
        _compile(partial, interpreter)
        facts = {"version": interpreter.version, "python_home": str(interpreter.home), "pins": sorted(pins)}
        (partial / FACTS).write_text(json.dumps(facts, indent=1) + "\n")
        partial.chmod(0o755)
        partial.rename(folder / key)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@asynccontextmanager
async def build_lease(name: str) -> AsyncIterator[None]:
    """Hold the right to make one thing of the cache; waits `WAIT_S` seconds for another process that makes it."""
    held = lease(cache_dir() / "leases" / name, f"{name} of {cache_dir()}", wait_s=WAIT_S)
    await asyncio.to_thread(held.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(held.__exit__, None, None, None)


def site_packages(root: Path, interpreter: Interpreter) -> Path:
    return root / "lib" / f"python{interpreter.minor}" / "site-packages"


def _skeleton(root: Path, interpreter: Interpreter) -> None:
    """What `python -m venv --without-pip` makes, without the path it was made at."""
    (root / "bin").mkdir()
    site_packages(root, interpreter).mkdir(parents=True)
    (root / "lib64").symlink_to("lib")
    (root / "bin" / "python").symlink_to(interpreter.executable)
    for name in ("python3", f"python{interpreter.minor}"):
        (root / "bin" / name).symlink_to("python")
    (root / "pyvenv.cfg").write_text(
        f"home = {interpreter.executable.parent}\n"
        "include-system-site-packages = false\n"
        f"version = {interpreter.version}\n"
    )


def _compile(root: Path, interpreter: Interpreter) -> None:
    """Compiled files beside the sources: the environment is read-only in a sandbox, which could not keep its own."""
    where = ("-s", str(root), "-p", "/env", "--invalidation-mode", "unchecked-hash")
    argv = [str(interpreter.executable), "-I", "-m", "compileall", "-qq", *where, str(root / "lib")]
    subprocess.run(argv, capture_output=True, check=False)  # packages ship sources of other versions: no error of ours
