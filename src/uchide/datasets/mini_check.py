"""Checks a bundled instance by running its tests in plain processes (our own code; no sandbox needed)."""

import json
import os
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

from uchide.datasets import trees
from uchide.datasets.git import init
from uchide.datasets.mini import RUNNER, MiniDataset
from uchide.errors import DatasetError


def run_both(dataset: MiniDataset, instance_id: str) -> tuple[dict[str, str], dict[str, str]]:
    """Status per test id on the base tree and on the fixed one, hidden tests laid over both."""
    with trees.scratch() as folder:
        tree = folder / "testbed"
        dataset.lay_base(instance_id, tree)
        init(tree)
        hidden = dataset.hidden_folder(instance_id)
        for path in trees.entries(hidden):
            if path.is_file():
                there = tree / path.relative_to(hidden)
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(path.read_bytes())
        base = _run(tree)
        dataset.gold_patch(instance_id, tree)
        return base, _run(tree)


def _run(tree: Path) -> dict[str, str]:
    out = tree.parent / "results"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))},
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "UCHIDE_RUNNER": json.dumps({"runner": RUNNER.kind, "argv": [sys.executable, *RUNNER.argv[1:]]}),
    }
    with as_file(files("uchide") / "tools" / "run_tests.py") as tool:
        argv = [sys.executable, str(tool), "--out", str(out), "tests"]
        done = subprocess.run(argv, cwd=tree, env=environment, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise DatasetError(f"tests of {tree} did not run: {done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["id"]: row["status"] for row in rows if "status" in row}
