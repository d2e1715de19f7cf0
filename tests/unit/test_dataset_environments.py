"""Interpreters found on this host, and environments that are whole or not there."""

import sys
from importlib.resources import files
from pathlib import Path

import pytest

from uchide.datasets import Workshop, environments
from uchide.datasets.builds import Builder, Release
from uchide.datasets.interpreters import at, find, running
from uchide.errors import EnvironmentBuildError

HERE = ".".join(map(str, sys.version_info[:2]))


def test_the_running_version_is_found_as_a_base_interpreter():
    found = find(HERE)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.home == Path(sys.base_prefix)
    assert not found.executable.is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix


def test_a_version_on_path_is_found(tmp_path, monkeypatch):
    wrapper = tmp_path / "python3.98"
    wrapper.write_text('#!/bin/sh\necho \'["3.98.1", "/opt/p/bin/python3.98", "/opt/p"]\'\n')
    wrapper.chmod(0o755)
    (tmp_path / "python3.97").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.97").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (find("3.98").version, find("3.98").home) == ("3.98.1", Path("/opt/p"))
    assert find("3.97") == running()
    assert find("3.96") == running()


def test_newest_of_pyenv(tmp_path, monkeypatch):
    for version in ("3.99.2", "3.99.10"):
        python = tmp_path / "versions" / version / "bin" / "python3.99"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\necho \'["{version}", "{python}", "{python.parent.parent}"]\'\n')
        python.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find("3.99").version == "3.99.10"


def test_no_interpreter(tmp_path):
    with pytest.raises(EnvironmentBuildError, match="does not run"):
        at(tmp_path / "none")


def test_keys():
    key = environments.environment_key
    assert key(running(), ("a==1", "b==2"), how="x") == key(running(), ("b==2", "a==1"), how="x")
    assert (
        len({key(running(), ("a==1",), how="x"), key(running(), ("a==2",), how="x"), key(running(), (), how="y")}) == 3
    )


async def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))

    async def broken() -> None:
        async with environments.build_lease("k"), environments.building("k", running(), ()) as root:
            assert (root / "bin" / "python").exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()
    assert list((tmp_path / "envs").iterdir()) == []
    assert not environments.is_built("k")
    async with environments.build_lease("k"), environments.building("k", running(), ()):
        pass
    assert environments.locate("k").version == running().version


async def test_a_failed_build_names_its_log(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))
    asked: list[tuple[str, ...]] = []

    async def build(argv, *, writable, readable, env, timeout_s):
        asked.append(tuple(argv))
        return 1, "Looking\nERROR: No matching distribution found for nothing==1\n"

    builder = Builder(Workshop(build, None), running(), print)
    with pytest.raises(EnvironmentBuildError, match="No matching distribution") as caught:
        await builder.sdist(Release("nothing==1", "0" * 64))
    log = Path(caught.value.hint.removeprefix("the log is "))
    assert "exit status 1" in log.read_text()
    assert "--require-hashes" in asked[0]
    assert list((tmp_path / "envs").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "retryable"),
    [
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)'\nERROR: No match",
            True,
        ),
        ("Temporary failure in name resolution", True),
        ("ERROR: No matching distribution found for nothing==1", False),
        ("error: subprocess-exited-with-error", False),
    ],
)
async def test_only_a_network_that_fails_is_worth_another_try(tmp_path, monkeypatch, said, retryable):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))

    async def failing(argv, *, writable, readable, env, timeout_s):
        return 1, said

    with pytest.raises(EnvironmentBuildError) as caught:
        await Builder(Workshop(failing, None), running(), print).sdist(Release("nothing==1", "0" * 64))
    assert caught.value.retryable is retryable
    assert ("cannot be reached" in str(caught.value)) is retryable


async def test_a_cached_sdist_that_was_changed_is_not_used(tmp_path, monkeypatch):
    import hashlib

    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))
    data = b"an sdist"
    sha = hashlib.sha256(data).hexdigest()
    path = tmp_path / "sdists" / sha / "p-1.tar.gz"
    path.parent.mkdir(parents=True)

    async def offline(argv, *, writable, readable, env, timeout_s):
        return 1, "ERROR: no network"

    builder = Builder(Workshop(offline, None), running(), print)
    path.write_bytes(data)
    assert await builder.sdist(Release("p==1", sha)) == path
    path.write_bytes(b"something else")
    with pytest.raises(EnvironmentBuildError, match="no network"):
        await builder.sdist(Release("p==1", sha))


def test_build_back_ends_are_pinned_with_hashes_and_no_address():
    lock = files("uchide.datasets").joinpath("build-requirements.lock").read_text()
    pins = [line for line in lock.splitlines() if "==" in line]
    assert {"pip", "setuptools", "wheel", "flit-core", "hatchling", "poetry-core"} <= {
        pin.split("==")[0] for pin in pins
    }
    assert lock.count("--hash=sha256:") == len(pins)
    assert "://" not in lock
