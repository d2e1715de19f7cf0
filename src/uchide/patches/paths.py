"""Which paths are tests, and which are leftovers of a build that belong to no patch."""

import re

_TEST_FOLDERS = frozenset({"test", "tests"})
_TEST_NAMES = re.compile(
    r"(test_.*|.*_test|tests|conftest)\.py|.*(Test|Tests|IT|TestCase)\.java",
)

_ARTEFACT_FOLDERS = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".eggs", ".git"}
)
_ARTEFACT_NAMES = re.compile(r".*\.(pyc|pyo|class|orig|rej|swp|egg-link)|\.coverage(\..*)?|patch\.txt|\.DS_Store")
_BUILD_FOLDERS = re.compile(r"build|dist|target|htmlcov|venv|\.venv|env|node_modules|.*\.egg-info")


def is_test_path(path: str) -> bool:
    """Whether `path` (relative to the repository) belongs to its tests, data files of test folders included."""
    *folders, name = path.split("/")
    return any(folder in _TEST_FOLDERS for folder in folders) or _TEST_NAMES.fullmatch(name) is not None


def is_artefact(path: str) -> bool:
    """Whether a new file at `path` is a cache or a leftover, wherever it lies."""
    *folders, name = path.split("/")
    return any(folder in _ARTEFACT_FOLDERS for folder in folders) or _ARTEFACT_NAMES.fullmatch(name) is not None


def build_folder(path: str) -> str | None:
    """The outermost folder above `path` that is usually a build's output (with a final `/`), or None.

    Some repositories keep sources in a folder of that name: it counts only where the base tree has no file in it.
    """
    folders = path.split("/")[:-1]
    for depth, folder in enumerate(folders, start=1):
        if _BUILD_FOLDERS.fullmatch(folder):
            return "/".join(folders[:depth]) + "/"
    return None
