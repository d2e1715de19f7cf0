"""An ablation and a pool through the whole pipeline: an arm for a switch, and selection over the arms together."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from uchide.records import Candidate, Matrix
from uchide.store import Artifact

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).parents[2]
EXPERIMENT = """name: ablation-test
dataset: { name: mini, ids: [gridtext-306] }
runs: 1
model: { name: mutator, mutants: 40 }
ablate: { switches: [skills] }
pools: { both: [full, no_skills] }
"""


def test_the_experiment_of_the_five_switches_has_an_arm_for_each(tmp_path: Path) -> None:
    out = uchide(tmp_path, "plan", "experiments/ablation-mini.yaml")
    assert "bench-generate 12" in out
    assert all(f".no_{switch}-" in out for switch in ("phases", "formatter", "handover", "skills", "tools"))


def uchide(folder: Path, *args: str) -> str:
    env = {**os.environ, "UCHIDE_ARTIFACTS": str(folder / "artifacts")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "uchide.cli.main", *args], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_arm_has_a_row_and_the_pool_takes_the_suites_of_both(tmp_path: Path) -> None:
    path = tmp_path / "ablation-test.yaml"
    path.write_text(EXPERIMENT)
    uchide(tmp_path, "run", str(path))
    home = tmp_path / "artifacts/ablation-test"
    (table,) = (home / "report").resolve().rglob("arms.csv")
    rows = {row["arm"]: row for row in csv.DictReader(table.open(encoding="utf-8"))}
    assert set(rows) == {"full", "no_skills", "both"}
    bench, tts = (Artifact((home / stage).resolve()).children() for stage in ("bench", "tts"))
    made = {row.arm: row for name, kid in bench.items() if name.startswith("generate.") for row in kid.rows(Candidate)}
    assert made["full"].usage.calls > made["full"].turns // 2
    assert made["full"].patch == made["no_skills"].patch != ""
    (matrix,) = tts["matrix.both"].rows(Matrix)
    assert matrix.patches[0].runs == ("full.r01_s1001", "no_skills.r01_s1001")
