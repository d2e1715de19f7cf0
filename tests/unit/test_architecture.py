"""The house rules that a machine can hold: floors, cold imports, no index hosts in tracked files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "uchide"
FLOORS = (
    {"records", "store", "paths", "errors", "protocols", "redact", "actions"},
    {"datasets", "llm", "sandboxes", "testing", "patches", "tools"},
    {"agents", "suites", "grading", "training", "selection", "stats"},
    {"report"},  # reads records only; pipeline.stages hands them over
    {"pipeline"},
    {"cli"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "uchide":
                yield from (f"uchide.{name.name}" for name in node.names)


def test_every_room_has_a_floor() -> None:
    rooms = {p.stem for p in SRC.iterdir() if not p.name.startswith("_") and (p.is_dir() or p.suffix == ".py")}
    assert rooms - set(FLOOR) == set()


def test_modules_import_only_from_floors_below() -> None:
    wrong = []
    for path in SRC.rglob("*.py"):
        here = path.relative_to(SRC).parts[0].removesuffix(".py")
        for name in imports(path):
            there = room(name)
            if not name.startswith("uchide") or there not in FLOOR or there == here:
                continue  # `from uchide import __version__` names no room
            if FLOOR[there] > FLOOR[here] or (FLOOR[there] == FLOOR[here] and FLOOR[here] > 0):
                wrong.append(f"{path.relative_to(SRC)} imports {name}")
    assert wrong == []


def test_the_library_imports_neither_stages_nor_snakemake() -> None:
    wrong = [
        f"{path.name}: {name}"
        for path in SRC.rglob("*.py")
        for name in imports(path)
        if name.split(".")[0] in {"snakemake", "stages"}
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["uchide.cli.main", "uchide.pipeline.plan", "uchide.pipeline.controller"])
def test_planning_imports_no_data_frames(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'pandas', 'pyarrow', 'numpy', 'snakemake'}} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def tracked() -> list[Path]:
    out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.decode()
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_an_index_host() -> None:
    hosts = [b"files.python" + b"hosted", b"py" + b"pi.org/simple", b"registry.npm" + b"js", b"deb.deb" + b"ian"]
    assert [str(p) for p in tracked() if any(host in p.read_bytes() for host in hosts)] == []


def test_no_tracked_file_is_over_a_megabyte() -> None:
    assert [str(p) for p in tracked() if p.stat().st_size > 1_000_000] == []
