"""What transport does to a diff, and what cannot be mended; which paths are tests."""

import pytest

from uchide.errors import PatchError
from uchide.patches import is_artefact, is_test_path, normalise
from uchide.patches.libraries import is_test, library_folders

GOOD = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,4 +1,4 @@ f\n x\n-1\n+2\n y\n \n"
OPEN = "\\ No newline at end of file\n"


@pytest.mark.parametrize(
    "damaged",
    [
        GOOD,
        GOOD[:-1],  # final newline stripped
        GOOD + "\n\n",
        GOOD[:-2] + "\n",  # blank context line lost its space
        GOOD[:-3] + "\n",  # and its newline
        GOOD + "  \n\t",
    ],
)
def test_mended(damaged):
    assert normalise(damaged) == GOOD


@pytest.mark.parametrize(
    "patch",
    [
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\r\n+2\r\n",
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n" + OPEN + "+a\u2028b\x0c\n" + OPEN,
        "--- a/a\n+++ b/a\n@@ -1,2 +1 @@\n--- a/x\n-+++ b/x\n+@@ -1 +1 @@\n",
        "diff --git a/e b/e\nnew file mode 100644\nindex 0..1\n",
        "diff --git a/b b/b\nindex 0..1 100644\nGIT binary patch\n" + 2 * "literal 1\nIcmZPo000310RR91\n\n",
    ],
)
def test_left_alone(patch):
    assert normalise(patch) == patch


@pytest.mark.parametrize("blank", ["", "\n", " \n\n"])
def test_blank_is_empty(blank):
    assert normalise(blank) == ""


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("I would change line 3.", "not a unified diff"),
        (GOOD.replace("-1\n", ""), "more lines"),
        (GOOD.replace("@@ -1,4", "@@ -1,9"), "line 10 of the patch"),
        ("--- a/a\n+++ b/a\n@@ -1,1 +1,3 @@\n-1\n-2\n+3\n", "more lines"),
    ],
)
def test_refused(patch, message):
    with pytest.raises(PatchError, match=message):
        normalise(patch)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/data/x.json", True),
        ("pkg/tests/__init__.py", True),
        ("test_a.py", True),
        ("pkg/a_test.py", True),
        ("app/tests.py", True),
        ("conftest.py", True),
        ("src/test/java/p/A.java", True),
        ("p/FooTest.java", True),
        ("pkg/testing/util.py", False),
        ("pkg/contest.py", False),
        ("latest/a.py", False),
        ("pkg/attest.py", False),
    ],
)
def test_test_paths(path, expected):
    assert is_test_path(path) is expected


LIBRARIES = """
django/__init__.py django/test/__init__.py django/test/client.py
astropy/__init__.py astropy/tests/__init__.py astropy/tests/helper.py astropy/tests/tests/__init__.py
astropy/tests/tests/test_helper.py astropy/io/__init__.py astropy/io/tests/__init__.py astropy/io/tests/test_io.py
pkg/__init__.py pkg/tests/__init__.py pkg/tests/util.py pkg/tests/unit/test_a.py
app/__init__.py app/test/data.json tests/__init__.py tests/util.py src/test/java/p/A.java
mpl/__init__.py mpl/test/__init__.py mpl/test/conftest.py
"""


def test_packages_that_are_called_test():
    found = library_folders(LIBRARIES.split())
    assert found == {"django/test", "astropy/tests", "mpl/test"}
    source = ("django/test/client.py", "django/test/templates/x.html", "astropy/tests/new.py", "setup.py")
    tests = ("django/test/test_new.py", "mpl/test/conftest.py", "astropy/tests/tests/data/x.txt", "app/test/data.json",
             "astropy/io/tests/x.fits", "pkg/tests/util.py", "tests/util.py", "src/test/java/p/A.java")  # fmt: skip
    assert [path for path in source if is_test(path, found)] == []
    assert [path for path in tests if not is_test(path, found)] == []


@pytest.mark.parametrize(("path", "expected"), [("a/__pycache__/b", True), ("x.rej", True), ("a/build.py", False)])
def test_artefacts(path, expected):
    assert is_artefact(path) is expected
