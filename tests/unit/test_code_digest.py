"""Code digests: what counts as code, on every Python, and how imports are followed."""

import subprocess
import sys
from pathlib import Path

import pytest

from uchide.errors import PlanError
from uchide.pipeline import source
from uchide.pipeline.code import CodeBase
from uchide.pipeline.drift import code_digests
from uchide.pipeline.parts import PARTS
from uchide.pipeline.source import strip_comments

ROOT = Path(__file__).parents[2]

TRICKY = '''#!/usr/bin/env python
# first

x = "# no comment"  # a comment
y = f"{x!r} # neither {'#'}"   # but this


def f(a,  # of a
      b):
    """Doc # stays

    and its blank line, with blanks at the end:   
    """
    return a \\
        + b  # sum
z = """
# inside

"""  # outside
w = f"""
# inside {x}

"""
'''

STRIPPED = '''
x = "# no comment"
y = f"{x!r} # neither {'#'}"
def f(a,
      b):
    """Doc # stays

    and its blank line, with blanks at the end:   
    """
    return a \\
        + b
z = """
# inside

"""
w = f"""
# inside {x}

"""
'''.lstrip("\n")


def test_comments_and_blank_lines_go_and_strings_stay():
    assert strip_comments(TRICKY) == STRIPPED
    assert strip_comments(STRIPPED) == STRIPPED


def test_line_ends_byte_order_mark_and_odd_separators():
    assert strip_comments("\ufeff" + TRICKY.replace("\n", "\r\n")) == STRIPPED
    assert strip_comments('x = "\u2028\x0c"  # c\ny = 1  # d') == 'x = "\u2028\x0c"\ny = 1\n'
    assert strip_comments("") == ""


@pytest.mark.parametrize("text", ["def f(:\n  x = (", "x = '''", "  x\n y\n"])
def test_text_that_is_not_python(text):
    with pytest.raises(SyntaxError):
        strip_comments(text)


PYENV = sorted((Path.home() / ".pyenv/versions").glob("3.1[1234]*/bin/python"))
PYTHONS = sorted({sys.executable, *map(str, PYENV)})


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_strips_alike(python, tmp_path):
    (tmp_path / "t.py").write_text(TRICKY)
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('source', {source.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "sys.stdout.write(module.strip_comments(open(sys.argv[1]).read()))\n"
    )
    done = subprocess.run([python, "-c", code, tmp_path / "t.py"], capture_output=True, text=True, check=True)
    assert done.stdout == STRIPPED


CREATE = "def create():\n    from . import three\n"


@pytest.fixture
def base(tmp_path):
    files = {
        "src/uchide/__init__.py": "",
        "src/uchide/entry.py": "from uchide import top\ndef f():\n    from uchide.pkg import lazy\n",
        "src/uchide/top.py": "import uchide.deep.er\nfrom uchide.store import x\nfrom . import sibling\n",
        "src/uchide/sibling.py": "",
        "src/uchide/store/__init__.py": "",
        "src/uchide/deep/__init__.py": "from uchide.deep.unused import u\n",
        "src/uchide/deep/er.py": "",
        "src/uchide/deep/unused.py": "u = 1\n",
        "src/uchide/pkg/__init__.py": "from .one import lazy\nfrom .two import other\n" + CREATE,
        "src/uchide/pkg/one.py": "lazy = 1\n",
        "src/uchide/pkg/two.py": "other = 1\n",
        "src/uchide/pkg/three.py": "",
        "src/uchide/page/a.html": "<p>\n",
        "stages/s.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return lambda: CodeBase(tmp_path, tmp_path / "memory.json")


def test_imports_are_followed_name_by_name(base):
    found = set(base().closure("uchide.entry"))
    assert found == {"uchide.entry", "uchide.top", "uchide.sibling", "uchide.deep.er", "uchide.pkg.one"}


def test_a_function_of_a_package_brings_all_the_package_imports(base, tmp_path):
    (tmp_path / "src/uchide/entry.py").write_text("from uchide.pkg import create\n")
    found = set(base().closure("uchide.entry"))
    assert found == {"uchide.entry", "uchide.pkg", "uchide.pkg.one", "uchide.pkg.two", "uchide.pkg.three"}


def test_digest_sees_code_and_data_and_remembers_by_content(base, tmp_path):
    def now():
        code = base()
        found = code.part_digest("uchide.entry", "s.py", ["page/*"])
        code.save()
        return found

    first = now()
    assert now() == first
    for rel, text in (
        ("src/uchide/pkg/one.py", "lazy = 2\n"),
        ("src/uchide/page/a.html", "<b>"),
        ("stages/s.py", "x\n"),
    ):
        before = (tmp_path / rel).read_text()
        (tmp_path / rel).write_text(text)
        assert now() != first
        (tmp_path / rel).write_text(before + "# c\n" if rel.endswith(".py") else before)
        assert now() == first
    (tmp_path / "src/uchide/pkg/two.py").write_text("other = 2\n")
    assert now() == first
    (tmp_path / "memory.json").write_text("{half")
    assert now() == first


def test_missing_module_and_broken_code_are_named(base, tmp_path):
    (tmp_path / "src/uchide/sibling.py").write_text("import uchide.gone\n")
    with pytest.raises(PlanError, match=r"uchide\.gone is imported"):
        base().closure("uchide.entry")
    (tmp_path / "src/uchide/sibling.py").write_text("def (\n")
    with pytest.raises(PlanError, match=r"sibling\.py is not Python"):
        base().closure("uchide.entry")


def test_what_this_checkout_s_parts_are_made_of(monkeypatch, tmp_path):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))
    assert set(code_digests(ROOT)) == set(PARTS)
    code = CodeBase(ROOT, tmp_path / "m.json")
    matrix, pick = code.closure(PARTS["tts-matrix"].entry), code.closure(PARTS["tts-pick"].entry)
    assert "uchide.selection.selectors" in pick
    assert "uchide.selection.selectors" not in matrix
    assert "uchide.selection.matrix" in matrix
    generate = code.closure(PARTS["bench-generate"].entry)
    assert not [name for name in generate if name.startswith(("uchide.grading", "uchide.report", "uchide.cli"))]
    report = code.closure(PARTS["report"].entry)
    assert "uchide.report.page" in report


def test_every_file_of_the_package_is_code_of_some_part_or_of_the_frame():
    """Data files, tools that run in a sandbox, and models, which are imported by name."""
    source_of = ROOT / "src/uchide"
    counted = {}
    for label, part in PARTS.items():
        for pattern in part.data:
            found = set(source_of.glob(pattern))
            assert found, f"{label}: nothing matches {pattern}"
            counted.setdefault(label, set()).update(path.relative_to(source_of).as_posix() for path in found)
    files = [path for path in source_of.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    data = {path.relative_to(source_of).as_posix() for path in files if path.suffix != ".py"} - {"py.typed"}
    assert data - set().union(*counted.values()) == set()
    runner = {"tools/run_tests.py", "tools/_test_run.py", "tools/_test_hooks.py", "sandboxes/guest.py"}
    for label in ("prepare-hidden", "test", "bench-grade", "tts-matrix"):
        assert runner <= counted[label]
    assert {"llm/mutator/model.py", "llm/mutator/playbook.yaml", *runner} <= counted["bench-generate"]
