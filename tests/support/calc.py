"""A tiny repository with a bug in `calc.add`, for tests that grade patches and cross-check suites in real sandboxes."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uchide.datasets import trees
from uchide.datasets.copied import copied_environment
from uchide.datasets.environments import BuiltEnvironment, locate
from uchide.datasets.mini import RUNNER
from uchide.protocols import GradeRequest
from uchide.records import (
    Candidate,
    Environment,
    FileContent,
    HiddenInstance,
    Issue,
    PublicInstance,
    Suite,
    Usage,
    digest,
)

BUGGY = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
SOURCE = BUGGY + '\n\ndef mul(a, b):\n    return a * b\n\n\ndef label(n):\n    return f"<{n}>"\n'
CONFTEST = "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n"
VISIBLE = """import calc


def test_mul(two):
    assert calc.mul(two, 3) == 6


def test_label():
    assert calc.label(1) == "<1>"
"""
HIDDEN = (
    VISIBLE
    + """

def test_add():
    assert calc.add(1, 2) == 3


def test_add_negative():
    assert calc.add(-1, -2) == -3
"""
)
FILES = {
    "src/calc/__init__.py": SOURCE,
    "tests/conftest.py": CONFTEST,
    "tests/test_calc.py": VISIBLE,
    "setup.cfg": "[metadata]\nname = calc\n",
    "README": "calc\n",
}


@dataclass(frozen=True)
class CalcCase:
    """The instance, prepared."""

    public: PublicInstance
    hidden: HiddenInstance
    tree: Path
    environment: BuiltEnvironment

    def request(self, patch: str, *, force: bool = False) -> GradeRequest:
        built = self.environment
        return GradeRequest(self.public, self.hidden, patch, self.tree, built.root, built.python_home, force)


async def prepare_calc(folder: Path) -> CalcCase:
    """Pack the tree into `folder` and make the environment in the current cache."""
    key, version = await copied_environment(("pytest",), lambda _: None)
    write(folder / "base", FILES)
    tree = trees.pack(folder / "base", folder / "trees")
    issue = Issue(instance_id="calc-1", repo="calc", problem_statement="add subtracts")
    environment = Environment(key=key, python=version, runner=RUNNER, pythonpath=("src",))
    hidden = HiddenInstance(
        instance_id="calc-1",
        gold_patch=patch_of({"src/calc/__init__.py": SOURCE.replace(BUGGY, FIXED)}),
        test_files=(FileContent(path="tests/test_calc.py", data=HIDDEN),),
        test_paths=("tests/test_calc.py",),
        fail_to_pass=("tests/test_calc.py::test_add", "tests/test_calc.py::test_add_negative"),
        pass_to_pass=("tests/test_calc.py::test_mul", "tests/test_calc.py::test_label"),
    )
    public = PublicInstance(issue=issue, environment=environment, tree=tree)
    return CalcCase(public, hidden, folder / "trees" / f"{tree}.tar.zst", locate(key))


def write(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        elif text.startswith("-> "):
            if path.is_dir():
                for child in path.iterdir():
                    child.unlink()
                path.rmdir()
            path.symlink_to(text[3:])
        else:
            path.write_text(text)


def patch_of(changes: Mapping[str, str | None]) -> str:
    """A unified diff of `changes` against the base tree: text, None to delete, `-> target` for a symbolic link."""
    with trees.scratch() as folder:

        def git(*words: str) -> str:
            run = subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=folder, capture_output=True, check=True)
            return run.stdout.decode()

        write(folder, FILES)
        git("init", "-q")
        git("add", "-A", "-f")
        base = git("write-tree").strip()
        write(folder, changes)
        git("add", "-A", "-f")
        return git("diff", "--cached", "--no-renames", "--binary", "--full-index", base)


def source(head: str = "", add: str = BUGGY, tail: str = "") -> dict[str, str | None]:
    """The source file with its `add`, and code before or after everything else."""
    return {"src/calc/__init__.py": head + SOURCE.replace(BUGGY, add) + tail}


def candidate(run: str, patch: str, suite: Suite) -> Candidate:
    return Candidate(
        candidate_id=f"main.{run}.calc-1",
        arm="main",
        run=run,
        seed=1,
        instance_id="calc-1",
        exit_status="completed",
        patch=patch,
        patch_sha256=digest(patch),
        suite=suite,
        suite_sha256=suite.sha256,
        turns=1,
        usage=Usage(),
        trajectory="t",
        trajectory_sha256="0",
    )
