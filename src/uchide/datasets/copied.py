"""Environments copied from the running one: no network, no build. For repositories that need only pytest."""

import shutil
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from uchide.datasets.environments import build_lease, building, environment_key, is_built, site_packages
from uchide.datasets.interpreters import running
from uchide.errors import EnvironmentBuildError
from uchide.protocols import Progress


async def copied_environment(wanted: tuple[str, ...], progress: Progress) -> tuple[str, str]:
    """Key and Python version of an environment with `wanted` and all they require, in the versions uchide runs with.

    Raises EnvironmentBuildError when one of them is not installed beside uchide.
    """
    interpreter = running()
    packages = closure(wanted)
    pins = tuple(sorted(f"{name}=={package.version}" for name, package in packages.items()))
    key = environment_key(interpreter, pins, how="copied 1")
    async with build_lease(f"env-{key}"):
        if not is_built(key):
            progress(f"environment {key[:12]}: copying {', '.join(pins)}")
            async with building(key, interpreter, pins) as root:
                for package in packages.values():
                    copy_files(package, site_packages(root, interpreter))
    return key, interpreter.version


def closure(wanted: tuple[str, ...]) -> dict[str, Distribution]:
    """The named distributions and everything they require here, by normalised name."""
    found: dict[str, Distribution] = {}
    waiting = list(wanted)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            raise EnvironmentBuildError(
                f"{name} is not installed beside uchide", hint="make venv, or pip install 'uchide[test]'"
            ) from None
        found[name] = package
        for text in package.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def copy_files(package: Distribution, target: Path) -> None:
    """Copy what a distribution installed into site-packages; its scripts and compiled files stay behind."""
    if package.files is None:
        raise EnvironmentBuildError(f"{package.name} has no list of its files, so it cannot be copied")
    for file in package.files:
        inside = PurePosixPath(file)
        if ".." in inside.parts or inside.is_absolute() or inside.suffix == ".pyc":
            continue
        there = target / inside
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(str(package.locate_file(file))), there)
