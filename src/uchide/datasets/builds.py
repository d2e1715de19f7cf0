"""Environments and releases from the package index, made in a build sandbox with network and kept by content.

A tools environment (pip and the build back-ends of our own lock) downloads and builds; the environment of a repository
holds only its pins, and the release under test where its metadata are needed.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from uchide.datasets.base import Workshop
from uchide.datasets.copied import copy_files
from uchide.datasets.environments import build_lease, building, environment_key, envs_dir, is_built, site_packages
from uchide.datasets.interpreters import Interpreter
from uchide.errors import EnvironmentBuildError
from uchide.paths import cache_dir
from uchide.protocols import Progress

TIMEOUT_S = 1200.0
NETWORK = re.compile(
    "after connection broken by|NameResolutionError|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError"
    "|SSLError|Temporary failure in name resolution"
)
"""What pip says when the index cannot be reached: no statement about the row."""
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "-q")


@dataclass(frozen=True)
class Release:
    """One release of a package: its pin and the SHA-256 of its sdist."""

    pin: str
    sha256: str


class Builder:
    """Builds with one interpreter. Cheap to make; everything it makes is shared through the cache."""

    def __init__(self, workshop: Workshop, interpreter: Interpreter, progress: Progress) -> None:
        self._workshop = workshop
        self._interpreter = interpreter
        self._progress = progress
        self._lock = files("uchide.datasets").joinpath("build-requirements.lock").read_text()
        self._tools_key = environment_key(interpreter, (self._lock,), how="tools 1")

    async def sdist(self, release: Release) -> Path:
        """The sdist of a release, from the cache or the index. Raises EnvironmentBuildError when it cannot be had."""
        folder = cache_dir() / "sdists" / release.sha256
        async with build_lease(f"sdist-{release.sha256[:32]}"):
            for path in folder.glob("*"):
                if _sha256(path) == release.sha256:
                    return path
                path.unlink()
            self._progress(f"downloading {release.pin}")
            return await self._download(release, folder)

    async def environment(self, pins: Sequence[str], own: Release | None) -> str:
        """Key of the environment holding `pins` and, if given, the package under test itself."""
        parts = (*pins, *([f"{own.pin} {own.sha256}"] if own else []))
        key = environment_key(self._interpreter, parts, how=f"pins 1 {self._tools_key}")
        if is_built(key):
            return key
        tools = await self._tools()
        archive = await self.sdist(own) if own else None
        async with build_lease(f"env-{key}"):
            if not is_built(key):
                self._progress(f"building environment {key[:12]} ({len(parts)} packages)")
                async with building(key, self._interpreter, parts) as root:
                    await self._install(root, tools, pins, archive, key)
        return key

    async def _tools(self) -> Path:
        key = self._tools_key
        async with build_lease(f"env-{key}"):
            if not is_built(key):
                self._progress(f"building the tools environment for Python {self._interpreter.version}")
                async with building(key, self._interpreter, (f"lock {key}",)) as root:
                    copy_files(_own_pip(), site_packages(root, self._interpreter))
                    lock = ("install", "--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:")
                    with _requirements(self._lock) as given:
                        argv = ("/env/bin/python", *PIP, *lock, "-r", "/in/requirements.txt")
                        await self._run(argv, {"/env": root}, {"/in": given}, what="the tools environment")
        return envs_dir() / key

    async def _download(self, release: Release, folder: Path) -> Path:
        tools = await self._tools()
        download = ("download", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes")
        with (
            _requirements(f"{release.pin} --hash=sha256:{release.sha256}\n") as given,
            tempfile.TemporaryDirectory(prefix="uchide-sdist-") as out,
        ):
            argv = ("/build/bin/python", *PIP, *download, "--dest=/out", "-r", "/in/requirements.txt")
            await self._run(argv, {"/out": Path(out)}, {"/in": given, "/build": tools}, what=release.pin)
            found = [path for path in Path(out).iterdir() if _sha256(path) == release.sha256]
            if len(found) != 1:
                raise EnvironmentBuildError(
                    f"{release.pin}: the index gave {sorted(p.name for p in Path(out).iterdir())}"
                )
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.copyfile(found[0], partial)
            return partial.rename(folder / found[0].name)

    async def _install(self, root: Path, tools: Path, pins: Sequence[str], own: Path | None, key: str) -> None:
        install = ("--python", "/env/bin/python", "install", "--no-deps", "--no-compile", "--only-binary=:all:")
        pip = ("/build/bin/python", *PIP)
        what = f"environment {key[:12]}"
        with _requirements("".join(f"{pin}\n" for pin in pins)) as given:
            pinned = (*pip, *install, "-r", "/in/requirements.txt")
            await self._run(pinned, {"/env": root}, {"/in": given, "/build": tools}, what=what)
        if own is None:
            return
        with tempfile.TemporaryDirectory(prefix="uchide-wheel-") as out:
            made = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir=/out", f"/in/{own.name}")
            await self._run((*pip, *made), {"/out": Path(out)}, {"/in": own.parent, "/build": tools}, what=what)
            wheels = [f"/in/{path.name}" for path in Path(out).glob("*.whl")]
            argv = (*pip, *install, "--no-index", *wheels)
            await self._run(argv, {"/env": root}, {"/in": Path(out), "/build": tools}, what=what)

    async def _run(
        self, argv: Sequence[str], writable: Mapping[str, Path], readable: Mapping[str, Path], *, what: str
    ) -> None:
        home = self._interpreter.home
        shown = dict(readable) if home.is_relative_to("/usr") else {**readable, str(home): home}
        status, output = await self._workshop.build(
            argv, writable=writable, readable=shown, env={"PIP_NO_CACHE_DIR": "1"}, timeout_s=TIMEOUT_S
        )
        if status != 0:
            log = cache_dir() / "logs" / f"{re.sub(r'[^A-Za-z0-9.=-]+', '-', what)}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"$ {' '.join(argv)}\n{output}\n[exit status {status}]\n", encoding="utf-8")
            raise _build_error(f"{what} cannot be built for Python {self._interpreter.version}", output, log)


@contextmanager
def _requirements(text: str) -> Iterator[Path]:
    """A folder holding `requirements.txt`, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="uchide-in-") as name:
        folder = Path(name)
        (folder / "requirements.txt").write_text(text)
        yield folder


def _own_pip() -> Distribution:
    """The pip beside uchide; it installs the one of the lock."""
    try:
        return distribution("pip")
    except PackageNotFoundError:
        raise EnvironmentBuildError(
            "pip is not installed beside uchide", hint="make venv makes one that has it"
        ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _build_error(what: str, output: str, log: Path) -> EnvironmentBuildError:
    """Retryable when the network failed: then the stage fails after some tries, and no row is left out for it."""
    if NETWORK.search(output):
        error = EnvironmentBuildError(
            f"{what}: the package index cannot be reached",
            hint=f"check the network and pip's configuration; the log is {log}",
        )
        error.retryable = True
        return error
    return EnvironmentBuildError(f"{what}: {_last_error(output)}", hint=f"the log is {log}")


def _last_error(output: str) -> str:
    """The last line of pip's that names an error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1]
