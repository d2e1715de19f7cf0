"""A person played the model for one mini instance: the same answers through inbox, recorded, and replayed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from uchide.records import Candidate, Graded, canonical
from uchide.store import Artifact

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).parents[2]
ANSWERS = sorted((ROOT / "tests/data/played/spanlib-202").glob("*.md"))
EXPERIMENT = """name: played
dataset: {{ name: mini, ids: [spanlib-202] }}
runs: 1
model: {model}
"""


def bench(folder: Path, model: str) -> subprocess.Popen[str]:
    """Start the experiment up to bench with artifacts of its own."""
    folder.mkdir()
    (folder / "played.yaml").write_text(EXPERIMENT.format(model=model))
    env = {**os.environ, "UCHIDE_ARTIFACTS": str(folder / "artifacts")}
    argv = [sys.executable, "-P", "-m", "uchide.cli.main", "run", str(folder / "played.yaml"), "--until", "bench"]
    return subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def row(folder: Path) -> tuple[Candidate, Graded]:
    parts = Artifact((folder / "artifacts/played/bench").resolve()).children()
    found = {name.split(".")[0]: part for name, part in parts.items()}
    (candidate,), (graded,) = found["generate"].rows(Candidate), found["grade"].rows(Graded)
    return candidate, graded


def answer_all(box: Path, running: subprocess.Popen[str]) -> None:
    """What the person did: an answer for each question as it comes."""
    deadline = time.monotonic() + 240
    for number, answer in enumerate(ANSWERS, start=1):
        asked = box / f"main.r01_s1001.spanlib-202/{number:04}.request.md"
        while not asked.exists():
            assert running.poll() is None, running.stdout and running.stdout.read()
            assert time.monotonic() < deadline, f"question {number} never came"
            time.sleep(0.05)
        part = asked.with_name(f"{number:04}.part")
        part.write_bytes(answer.read_bytes())
        part.rename(asked.with_name(f"{number:04}.answer.md"))


def test_what_a_person_answered_resolves_the_instance_and_is_replayed_to_the_byte(tmp_path: Path) -> None:
    box, tape = tmp_path / "box", tmp_path / "tape"
    quick = "timeout_s: 120, poll_s: 0.05, settle_s: 0.05"
    running = bench(tmp_path / "one", f"{{ name: inbox, dir: {box}, {quick}, record: {tape} }}")
    answer_all(box, running)
    output, _ = running.communicate(timeout=120)
    assert running.returncode == 0, output
    played, graded = row(tmp_path / "one")
    assert played.exit_status == "completed"
    assert played.turns == len(ANSWERS)
    assert played.format_errors == 0
    assert graded.verdict.category == "resolved"
    assert len(played.suite.fail_to_pass) == 3
    assert len(played.suite.pass_to_pass) == 16

    again = bench(tmp_path / "two", f"{{ name: replay, from: {tape} }}")
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    replayed, verdict = row(tmp_path / "two")
    assert canonical(replayed) == canonical(played)
    assert verdict.verdict.category == "resolved"
