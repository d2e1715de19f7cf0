"""import_graph.py: who imports whom, without importing anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.interpreters import interpreters, tool

FILES = {
    "src/pkg/__init__.py": "from .core import run\n",
    "src/pkg/core.py": "import os\nimport json as j\nfrom . import helpers\nfrom .sub.deep import leaf\nrun = None\n",
    "src/pkg/helpers.py": "def late():\n    from pkg.core import run\n    return run\n",
    "src/pkg/sub/__init__.py": "",
    "src/pkg/sub/deep.py": "from ..helpers import late\nleaf = 1\n",
    "tests/test_core.py": "import pkg.core\nfrom pkg import helpers\nimport pytest\n",
    "script.py": "from pkg.sub import deep\n",
    "bad.py": "def (:\n",
    "venv/lib/skipped.py": "import pkg.core\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def call(root: Path, *args: str, python: str = sys.executable, path: str = "") -> tuple[int, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    done = subprocess.run(
        [python, tool("import_graph"), *args], cwd=root, env=env, capture_output=True, timeout=30, check=False
    )
    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text
    return done.returncode, text


@pytest.mark.parametrize("python", interpreters())
def test_both_directions(root, python):
    code, text = call(root, "src/pkg/core.py", "--json", python=python)
    assert code == 0
    found = json.loads(text)
    assert [(one["file"], one["line"]) for one in found["imports"]] == [
        ("src/pkg/helpers.py", 3),
        ("src/pkg/sub/deep.py", 4),
    ]
    assert found["outside"] == ["json", "os"]
    assert [(one["file"], one["line"], one["depth"]) for one in found["imported_by"]] == [
        ("src/pkg/__init__.py", 1, 1),
        ("src/pkg/helpers.py", 2, 1),
        ("tests/test_core.py", 1, 1),
    ]


def test_importers_of_importers_say_through_what(root):
    found = json.loads(call(root, "src/pkg/sub/deep.py", "--depth", "2", "--json")[1])
    assert {"file": "script.py", "line": 1, "through": None, "depth": 1} in found["imported_by"]
    assert {"file": "tests/test_core.py", "line": 1, "through": "src/pkg/core.py", "depth": 2} in found["imported_by"]
    assert not any(one["file"].startswith("venv") for one in found["imported_by"])


def test_it_is_printed_for_people(root):
    text = call(root, "./src/pkg/sub/deep.py")[1]
    assert "    src/pkg/sub/deep.py:1  src/pkg/helpers.py (pkg.helpers)\n" in text
    assert "    src/pkg/core.py:4\n" in text


def test_folders_of_the_python_path_hold_modules_too(root):
    (root / "code").mkdir()
    (root / "code/tool.py").write_text("import part\n")
    (root / "code/part.py").write_text("")
    assert json.loads(call(root, "code/tool.py", "--json")[1])["outside"] == ["part"]
    found = json.loads(call(root, "code/tool.py", "--json", path=f"/somewhere{os.pathsep}{root}/code")[1])
    assert [one["file"] for one in found["imports"]] == ["code/part.py"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("absent.py",), 1, "absent.py is no Python file of the repository"),
        (("bad.py",), 1, "bad.py cannot be parsed: SyntaxError"),
        (("script.py", "--depth", "0"), 2, "--depth must be at least 1"),
    ],
)
def test_what_cannot_be_shown_is_one_plain_line(root, args, code, says):
    got, text = call(root, *args)
    assert got == code
    assert says in text
