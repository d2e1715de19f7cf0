"""mro_check.py: the order in which Python looks a method up, as the repository's own interpreter sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.interpreters import interpreters, tool

SHAPES = """class Shape(object):
    def area(self):
        return 0

    @property
    def name(self):
        return "shape"

    def _secret(self):
        pass


class Loud(object):
    def area(self):
        return 1


class Square(Loud, Shape):
    @classmethod
    def unit(cls):
        return cls()

    @staticmethod
    def sides():
        return 4

    class Inner(Shape):
        pass
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/base.py").write_text(SHAPES)
    (tmp_path / "pkg/more.py").write_text(
        "from .base import Square\n\n\nclass Tile(Square):\n    def area(self):\n        return 2\n"
    )
    (tmp_path / "broken.py").write_text("raise SystemExit(3)\n")
    return tmp_path


def call(root: Path, *args: str, python: str = sys.executable) -> tuple[int, str]:
    done = subprocess.run([python, tool("mro_check"), *args], cwd=root, capture_output=True, timeout=30, check=False)
    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text
    return done.returncode, text


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("where", ["pkg.more:Tile", "pkg/more.py:Tile"])
def test_the_order_and_where_each_method_comes_from(root, python, where):
    code, text = call(root, where, "--json", python=python)
    assert code == 0
    found = json.loads(text)
    assert found["class"] == "pkg.more.Tile"
    assert [one["class"].rpartition(".")[2] for one in found["mro"]] == ["Tile", "Square", "Loud", "Shape", "object"]
    assert (found["mro"][0]["file"], found["mro"][0]["line"]) == ("pkg/more.py", 4)
    assert found["mro"][-1] == {"class": "object", "file": None, "line": None}
    methods = {one["name"]: one for one in found["methods"]}
    assert set(methods) == {"area", "name", "sides", "unit"}
    assert methods["area"]["hides"] == ["pkg.base.Loud", "pkg.base.Shape"]
    assert (methods["unit"]["kind"], methods["sides"]["kind"], methods["name"]["kind"]) == (
        "classmethod",
        "staticmethod",
        "property",
    )


def test_it_is_printed_for_people(root):
    code, text = call(root, "pkg.base:Square", "--method", "area")
    assert code == 0
    assert "  2. pkg.base.Loud  pkg/base.py:13\n" in text
    assert text.endswith("area: method of pkg.base.Loud; hides pkg.base.Shape\n")


def test_private_names_and_nested_classes_on_demand(root):
    assert "_secret" not in call(root, "pkg.base:Square.Inner")[1]
    assert "_secret: method of pkg.base.Shape" in call(root, "pkg.base:Square.Inner", "--all")[1]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("pkg.base:Circle",), 1, "has no 'Circle'; classes there: Loud, Shape, Square"),
        (("pkg.base:Square", "--method", "volume"), 1, "pkg.base.Square has no method 'volume'"),
        (("pkg.base:Square.unit",), 1, "not a class"),
        (("absent:A",), 1, "absent cannot be imported"),
        (("broken:A",), 1, "broken cannot be imported: SystemExit: 3"),
        (("no/such.py:A",), 1, "there is no file"),
        (("pkg.base",), 2, "MODULE:CLASS"),
    ],
)
def test_what_cannot_be_shown_is_one_plain_line(root, args, code, says):
    got, text = call(root, *args)
    assert got == code
    assert says in text
