"""Folders called `test` or `tests` that are a package's own code, such as `django/test`: a fix there is a fix.

A name alone cannot tell them from tests; the base tree can.
"""

import re
from collections.abc import Iterable

from uchide.patches.paths import is_test_path

NESTED = re.compile(r"/tests?/")
"""Only such a path can lie in a library: a folder at the root of a repository is never one."""
_FOLDER = re.compile(r"tests?")
_TEST = re.compile(r"(test_.*|.*_test|tests)\.py")


def library_folders(files: Iterable[str]) -> frozenset[str]:
    """Of the files of a base tree, the folders `test` and `tests` that are packages inside a package and hold no test.

    A test belongs to the innermost such folder above it: `astropy/tests/tests/test_x.py` says nothing of
    `astropy/tests`, `pkg/tests/unit/test_x.py` says that `pkg/tests` holds tests.
    """
    known = frozenset(files)
    inner = {path.removesuffix("/__init__.py") for path in known if path.endswith("/__init__.py")}
    packages = {folder for folder in inner if _FOLDER.fullmatch(folder.rpartition("/")[2])}
    inside = {folder for folder in packages if folder.rpartition("/")[0] in inner}
    tests = (_test_folders(path) for path in known if _TEST.fullmatch(path.rpartition("/")[2]))
    holding = {above[-1] for above in tests if above}
    return frozenset(inside - holding)


def is_test(path: str, libraries: frozenset[str]) -> bool:
    """`is_test_path`, but for files that are tests by nothing except a folder in `libraries`."""
    if not is_test_path(path) or not libraries:
        return is_test_path(path)
    by_name = is_test_path(path.rpartition("/")[2])
    return by_name or any(folder not in libraries for folder in _test_folders(path))


def _test_folders(path: str) -> list[str]:
    """The folders `test` and `tests` above a path, outermost first."""
    folders = path.split("/")[:-1]
    return ["/".join(folders[: n + 1]) for n, folder in enumerate(folders) if _FOLDER.fullmatch(folder)]
