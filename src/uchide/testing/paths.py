"""Which paths decide what tests say: test files, folders of tests, configuration. Relative, with slashes."""

from collections.abc import Iterable
from pathlib import PurePosixPath

TEST_FOLDERS = frozenset({"test", "tests", "testing"})
CONFIGURATION = frozenset(
    {
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
        "pyproject.toml", "sitecustomize.py", "usercustomize.py",
    }
)  # fmt: skip


def is_test_file(path: str) -> bool:
    """A test by its name alone: `test_*.py`, `*_test.py`, `tests.py`."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py") or name == "tests.py")


def is_test_configuration(path: str) -> bool:
    """Files that change how tests run without being tests: configuration, start-up hooks, plugin entry points."""
    parts = PurePosixPath(path).parts
    if not parts:
        return False
    return (
        parts[-1] in CONFIGURATION
        or parts[-1].endswith(".pth")
        or ".git" in parts
        or any(part.endswith((".egg-info", ".dist-info")) for part in parts)
    )


def roots_of_tests(test_files: Iterable[str]) -> frozenset[str]:
    """The folders of tests that hold these files: the path up to and including its last `test`/`tests`/`testing`."""
    roots = set()
    for path in test_files:
        parts = PurePosixPath(path).parts[:-1]
        last = max((n for n, part in enumerate(parts) if part in TEST_FOLDERS), default=-1)
        if last >= 0:
            roots.add("/".join(parts[: last + 1]))
    return frozenset(roots)


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of the folders or lies in one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
