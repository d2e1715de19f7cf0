"""A mini sweep through Snakemake, once; then what a finished experiment promises about reruns and reuse."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from uchide.records import Candidate, Pick, canonical
from uchide.store import Artifact

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Clone:
    """A copy of the checkout's tracked files with artifacts of its own."""

    path: Path
    artifacts: Path

    def uchide(self, *args: str, check: bool = True) -> str:
        env = {**os.environ, "UCHIDE_ARTIFACTS": str(self.artifacts), "PYTHONPATH": str(self.path / "src")}
        argv = [sys.executable, "-P", "-m", "uchide.cli.main", *args]
        done = subprocess.run(argv, cwd=self.path, env=env, capture_output=True, text=True)
        output = done.stdout + done.stderr
        assert not check or done.returncode == 0, output
        return output

    def jobs(self, *args: str) -> dict[str, int]:
        """Label -> number of jobs that a run would start."""
        out = self.uchide("run", *args, "--dry-run")
        line = next((line for line in out.splitlines() if " jobs to run" in line or " job to run" in line), "")
        return {label: int(n) for label, n in re.findall(r"([a-z-]+) (\d+)", line.partition(":")[2])}

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def stage(self, experiment: str, stage: str) -> Artifact:
        return Artifact((self.artifacts / experiment / stage).resolve())


def clone_to(folder: Path) -> Path:
    names = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in names.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


FEWER = ("experiments/mini.yaml", "  name: mini\n", "  name: mini\n  limit: 4\n")


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Clone, str]]:
    """A finished run of experiments/mini.yaml, cut to four instances, and what it printed."""
    folder = tmp_path_factory.mktemp("mini")
    clone = Clone(clone_to(folder / "clone"), folder / "artifacts")
    clone.edit(*FEWER)
    yield clone, clone.uchide("run", "experiments/mini.yaml")
    shutil.rmtree(folder, ignore_errors=True)


def candidates(clone: Clone, experiment: str) -> dict[str, Candidate]:
    parts = clone.stage(experiment, "bench").children()
    rows = [row for name, part in parts.items() if name.startswith("generate.") for row in part.rows(Candidate)]
    return {row.candidate_id: row for row in rows}


def test_the_table_and_the_summary_agree(mini: tuple[Clone, str]) -> None:
    agree(*mini, instances=4)


@pytest.mark.slow
def test_the_whole_mini_sweep(tmp_path: Path) -> None:
    clone = Clone(clone_to(tmp_path / "clone"), tmp_path / "artifacts")
    agree(clone, clone.uchide("run", "experiments/mini.yaml"), instances=10)


def agree(clone: Clone, printed: str, instances: int) -> None:
    print(printed[printed.rindex("resolved of") :])
    summary = json.loads((clone.path / "reports/mini/summary.json").read_text())
    assert summary["k"] == 4
    assert summary["n_instances"] == instances
    assert summary["infra"] == 0
    for row in summary["per_run"]:
        assert re.search(rf"{row['run']}\s+{row['resolved']}\b", printed)
    assert re.search(rf"oracle\s+{summary['oracle']}\b", printed)
    assert summary["oracle"] >= max(summary["selected"].values()) >= 1
    assert (
        summary["oracle"] >= summary["pass_at_1"]["max"] >= summary["pass_at_1"]["mean"] >= summary["pass_at_1"]["min"]
    )
    page = (clone.path / "reports/mini/index.html").read_text()
    assert str(clone.path / "reports/mini/index.html") in printed
    assert all(name in page for name in {row.instance_id for row in candidates(clone, "mini").values()})


def test_seeds_differ_and_the_same_seed_repeats_to_the_byte(mini: tuple[Clone, str], tmp_path: Path) -> None:
    clone, _ = mini
    before = candidates(clone, "mini")
    by_run = {row.run: [] for row in before.values()}
    for row in sorted(before.values(), key=lambda row: row.instance_id):
        by_run[row.run].append((row.patch_sha256, row.suite_sha256))
    assert len({tuple(rows) for rows in by_run.values()}) == len(by_run)
    again = Clone(clone.path, tmp_path / "artifacts")
    chosen = sorted({row.instance_id for row in before.values()})[:2]
    again.uchide("run", "experiments/mini.yaml", "--until", "bench", "--runs", "2", *(f"-i{name}" for name in chosen))
    after = candidates(again, "mini.subset")
    assert len(after) == 4
    assert {name: canonical(row) for name, row in after.items()} == {name: canonical(before[name]) for name in after}


def test_a_finished_experiment_starts_no_job(mini: tuple[Clone, str]) -> None:
    clone, _ = mini
    runs = len(list((clone.artifacts / "mini" / "runs").iterdir()))
    assert "nothing to run" in clone.uchide("run", "experiments/mini.yaml").lower()
    assert len(list((clone.artifacts / "mini" / "runs").iterdir())) == runs


TTS_AND_REPORT = {"tts-pick", "tts-grade", "tts", "report"}
EDITS = [
    ("src/uchide/selection/selectors.py", "def ", "STRANGE = 1\n\n\ndef ", TTS_AND_REPORT),
    ("experiments/mini.yaml", "runs: 4", "runs: 4\nselection: {weights: {bug: 0.4, regression: 0.6}}", TTS_AND_REPORT),
    ("src/uchide/report/templates/index.html.j2", "<main", "<main data-edited", {"report"}),
    ("src/uchide/selection/selectors.py", "def ", "# A comment.\ndef ", set()),
    ("src/uchide/agents/phases/prompts/code_fix.md", "Change the source", "Change only the source", set()),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "labels"), EDITS, ids=["selector", "weight", "template", "comment", "prompt"]
)
def test_an_edit_reruns_only_what_it_can_change(
    mini: tuple[Clone, str], name: str, old: str, new: str, labels: set[str]
) -> None:
    clone, _ = mini
    kept = (clone.path / name).read_bytes()
    try:
        clone.edit(name, old, new)
        assert set(clone.jobs("experiments/mini.yaml")) == labels
        if name.endswith(".md"):
            assert "made by other code" in clone.uchide("run", "experiments/mini.yaml", "--dry-run")
            assert "bench-generate" in clone.jobs("experiments/mini.yaml", "--from", "bench")
    finally:
        (clone.path / name).write_bytes(kept)


def test_touching_files_and_a_fresh_checkout_plan_nothing(mini: tuple[Clone, str], tmp_path: Path) -> None:
    clone, _ = mini
    for path in clone.path.rglob("*.py"):
        os.utime(path)
    assert clone.jobs("experiments/mini.yaml") == {}
    fresh = Clone(clone_to(tmp_path / "clone"), clone.artifacts)
    fresh.edit(*FEWER)
    assert fresh.jobs("experiments/mini.yaml") == {}


def test_one_more_run_makes_only_that_run(mini: tuple[Clone, str]) -> None:
    clone, _ = mini
    jobs = clone.jobs("experiments/mini.yaml", "--runs", "5")
    assert {label: jobs.get(label) for label in ("bench-generate", "bench-grade", "prepare-public", "test")} == {
        "bench-generate": 1,
        "bench-grade": 1,
        "prepare-public": None,
        "test": None,
    }


def test_a_reused_bench_gives_the_same_picks_without_a_rollout(mini: tuple[Clone, str]) -> None:
    clone, _ = mini
    text = (clone.path / "experiments/mini.yaml").read_text().replace("name: mini\n", "name: again\n", 1)
    (clone.path / "experiments/again.yaml").write_text(text + "reuse: { bench: mini }\n")
    assert not {"bench-generate", "bench-grade"} & set(clone.jobs("experiments/again.yaml"))
    clone.uchide("run", "experiments/again.yaml")
    picks = [
        sorted(canonical(row) for row in clone.stage(name, "tts").children()["pick.main"].rows(Pick))
        for name in ("mini", "again")
    ]
    assert picks[0] == picks[1] != []


def test_a_flipped_byte_in_what_is_reused_stops_by_name(mini: tuple[Clone, str], tmp_path: Path) -> None:
    clone, _ = mini
    copy = Clone(clone.path, tmp_path / "artifacts")
    shutil.copytree(clone.artifacts, copy.artifacts, symlinks=True)
    part = next(iter((copy.artifacts / "store").glob("bench-generate*"))) / "rows.jsonl"
    data = part.read_bytes()
    part.write_bytes(data[:-30] + bytes([data[-30] ^ 1]) + data[-29:])
    text = (clone.path / "experiments/mini.yaml").read_text().replace("name: mini\n", "name: flipped\n", 1)
    (clone.path / "experiments/flipped.yaml").write_text(text + f"reuse: {{ bench: {copy.artifacts}/mini/bench }}\n")
    fresh = Clone(clone.path, tmp_path / "fresh")
    out = fresh.uchide("run", "experiments/flipped.yaml", check=False)
    assert part.parent.name in out
    assert "rows.jsonl" in out
    assert "Traceback" not in out
