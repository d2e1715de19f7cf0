"""Running for real, with quick engines: kills, two controllers, reuse, failures, plain Snakemake."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from frame import Checkout

from uchide.store.lease import process_start


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A checkout that ran once without any trouble."""
    checkout = Checkout.make(tmp_path_factory.mktemp("run"))
    checkout.uchide("run", "x")
    return checkout


@pytest.fixture
def fresh(undisturbed, tmp_path):
    """The same checkout before its run."""
    shutil.copytree(
        undisturbed.path, tmp_path / "c", symlinks=True, ignore=shutil.ignore_patterns("artifacts", "reports")
    )
    return Checkout(tmp_path / "c", undisturbed.cache)


def processes(folder: Path) -> list[int]:
    """Live processes that have this folder on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words and process_start(int(entry.name)):
                found.append(int(entry.name))
    return found


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
    return value


def rows(checkout, pattern="bench-generate*"):
    return sum(path.read_bytes().count(b"\n") for path in checkout.store.glob(f"{pattern}/rows.jsonl"))


def assert_like_undisturbed(checkout, undisturbed):
    assert checkout.digests() == undisturbed.digests()
    for path in checkout.store.glob("*/rows.jsonl"):
        ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
        assert len(ids) == len(set(ids)), path
    checkout.uchide("artifacts", "verify")
    assert not list(checkout.store.glob("*/lease.json"))


def kill_at(checkout, child, moment, what):
    """SIGKILL the controller, or one worker, at a moment counted in seconds from now."""
    time.sleep(moment)
    if what == "controller":
        child.kill()
    else:
        workers = [pid for pid in processes(checkout.path) if is_worker(pid)]
        for pid in workers[:1]:
            os.kill(pid, signal.SIGKILL)
    output, _ = child.communicate(timeout=120)
    return output


def is_worker(pid):
    try:
        return b"/stages/" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def killed_again_and_again(fresh, moments):
    for n, moment in enumerate(moments):
        child = fresh.start("run", "x", QUICK_SECONDS="0.3")
        kill_at(fresh, child, moment, "worker" if n % 2 else "controller")
        wait_for(lambda: not processes(fresh.path), 10)
    fresh.uchide("run", "x")


def test_kill_nine_of_controller_and_worker_loses_nothing(fresh, undisturbed):
    child = fresh.start("run", "x", QUICK_SECONDS="0.3")
    wait_for(lambda: rows(fresh) >= 2)
    kill_at(fresh, child, 0.2, "controller")
    wait_for(lambda: not processes(fresh.path), 10)
    there = rows(fresh)
    child = fresh.start("run", "x", QUICK_SECONDS="0.3")
    wait_for(lambda: rows(fresh) > there)
    output = kill_at(fresh, child, 0.1, "worker")
    assert child.returncode == 1
    assert "killed?" in output
    assert "finished rows are kept" in output
    fresh.uchide("run", "x")
    assert_like_undisturbed(fresh, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kill_nine_at_ten_random_moments(fresh, undisturbed, seed):
    chance = random.Random(seed)
    killed_again_and_again(fresh, [chance.uniform(1, 9) for _ in range(10)])
    assert_like_undisturbed(fresh, undisturbed)


def test_second_controller_is_refused_by_name_and_interrupt_stops_cleanly(fresh, undisturbed):
    first = fresh.start("run", "x", QUICK_SECONDS="2")
    wait_for(lambda: list(fresh.store.glob("bench-generate*/lease.json")))
    out = fresh.uchide("run", "x", code=1)
    assert f"experiment x is being written by process {first.pid}" in out
    status = fresh.uchide("status")
    assert f"x: process {first.pid}" in status
    assert "bench-generate" in status
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate(timeout=30)
    assert first.returncode == 130
    assert "stopped; finished rows are kept. To go on: uchide run x" in output
    assert "Traceback" not in output
    assert not processes(fresh.path)
    kept = {path.name for path in fresh.store.iterdir()}
    assert "0 artifacts" in fresh.uchide("artifacts", "gc", "--yes")
    assert {path.name for path in fresh.store.iterdir()} == kept
    fresh.uchide("run", "x")
    assert_like_undisturbed(fresh, undisturbed)


def test_infrastructure_failures_stop_the_stage_and_only_those_rows_are_tried_again(fresh, undisturbed):
    out = fresh.uchide("run", "x", "--until", "bench", code=1, QUICK_INFRA="repo-1", QUICK_EVIL="repo-4")
    assert "1 of 3 rows failed for reasons of infrastructure (policy.max_infra allows 2%): repo-1" in out
    assert "repo-1: the sandbox fell over (try 3)" in out
    assert "failed: bench-generate.main.r01_s1001.s000" in out or "failed: bench-generate-" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]not markup[/red]" in out
    generated = rows(fresh)
    assert generated == 10
    fresh.uchide("run", "x")
    assert rows(fresh) == 14
    assert {k: v for k, v in fresh.digests().items() if "generate" in k} == {
        k: v for k, v in undisturbed.digests().items() if "generate" in k
    }


def test_tolerated_infrastructure_failures_are_rows(fresh):
    fresh.edit("experiments/x.yaml", "policy: {", "policy: {max_infra: 0.5, ")
    out = fresh.uchide("run", "x", QUICK_INFRA="repo-1")
    assert "infra failures" in out
    shown = fresh.uchide("show", "x", "repo-1")
    assert shown.count("infra") >= 4


def test_excluded_instances_are_listed_and_left_out(fresh):
    fresh.write("datasets/quick/ids.txt", "repo-0 broken-1 bad-2 hopeless-3\n")
    out = fresh.uchide("run", "x")
    assert "broken-1 takes no part: it cannot be had" in out
    assert "hopeless-3 takes no part: the fix turns nothing green" in out
    assert "bad-2 fails preflight: gold does not resolve it" in out
    summary = json.loads((fresh.path / "reports/x/summary.json").read_text())
    assert (summary["n_instances"], summary["n_excluded"]) == (1, 3)
    assert rows(fresh) == 2
    fresh.edit("experiments/x.yaml", "policy: {", "policy: {preflight: fatal, ")
    for faulty, reason in (("bad-2", "gold does not"), ("broken-1", "it cannot"), ("hopeless-3", "the fix turns")):
        fresh.write("datasets/quick/ids.txt", f"repo-0 {faulty} \n")
        out = fresh.uchide("run", "x", code=1)
        assert f"policy.preflight is fatal, and 1 of the instances cannot be used: {faulty}: {reason}" in out


def test_wrong_agent_options_stop_before_anything_runs(fresh):
    fresh.edit("experiments/x.yaml", "agent: quick", "agent: {name: quick, flagg: 1}")
    assert "arm main: agent: unknown option 'flagg'" in fresh.uchide("run", "x", code=1)
    assert not fresh.store.exists()


# --- reuse -----------------------------------------------------------------------------------------------------------
def reusing(checkout, where):
    checkout.write(
        "experiments/again.yaml", (checkout.path / "experiments/x.yaml").read_text().replace("name: x", "name: again")
    )
    with (checkout.path / "experiments/again.yaml").open("a") as file:
        file.write(f"reuse: {{bench: {where}}}\n")


def picks(checkout, experiment):
    top = checkout.path / "artifacts" / experiment / "tts"
    names = json.loads((top / "manifest.json").read_text())["children"]
    (name,) = [name for name in names if name.startswith("tts-pick")]
    return sorted((top.resolve().parent / name / "rows.jsonl").read_text().splitlines())


@pytest.fixture
def given(undisturbed, tmp_path):
    """The undisturbed store, copied away: an artifact from elsewhere."""
    shutil.copytree(undisturbed.store, tmp_path / "elsewhere")
    (top,) = [
        path.parent for path in (tmp_path / "elsewhere").glob("bench-*/manifest.json") if "." not in path.parent.name
    ]
    return top


def test_reused_bench_makes_no_rollout_and_gives_the_same_picks(fresh, given, undisturbed):
    reusing(fresh, given)
    out = fresh.uchide("run", "again")
    counts = fresh.parse_counts(out)
    assert counts["bench (reuse)"] == 1
    assert not {"bench-generate", "bench-grade"} & set(counts)
    assert not list(fresh.store.glob("bench-generate*"))
    assert picks(fresh, "again") == picks(undisturbed, "x")
    assert "nothing to run" in fresh.uchide("run", "again")
    fresh.uchide("artifacts", "verify")
    assert "--from bench-grade: the experiment takes bench from" in fresh.uchide(
        "run", "again", "--from", "bench-grade", code=1
    )
    moved = given.parent.rename(given.parent.with_name("moved"))
    reusing(fresh, moved / given.name)
    assert fresh.parse_counts(fresh.uchide("run", "again", "-n")) == {}


def test_an_instance_that_is_unfit_here_is_left_out_of_a_reused_bench(fresh, given):
    reusing(fresh, given)
    fresh.uchide("run", "again", QUICK_BAD="repo-1")
    summary = json.loads((fresh.path / "reports/again/summary.json").read_text())
    assert (summary["n_instances"], summary["n_excluded"]) == (4, 1)
    assert sum(summary["categories"].values()) == 8


def test_reuse_by_name_in_the_same_store_shares_what_follows(undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "c", symlinks=True)
    checkout = Checkout(tmp_path / "c", undisturbed.cache)
    reusing(checkout, "x")
    assert checkout.parse_counts(checkout.uchide("run", "again", "-n")) == {"bench (reuse)": 1, "report": 1}


def test_flipped_byte_stops_reuse_and_is_named(fresh, given):
    path = next(given.parent.glob("bench-grade.main.r02*s001*/rows.jsonl"))
    data = bytearray(path.read_bytes())
    data[100] ^= 4
    path.write_bytes(data)
    reusing(fresh, given)
    out = fresh.uchide("run", "again", "--until", "bench", code=1)
    assert f"{path.parent.name}/rows.jsonl: content is" in out


def spoil_instances(checkout, given):
    checkout.edit("experiments/x.yaml", "{name: quick}", "{name: quick, limit: 4}")
    return "reuse.bench: instances is", "5 instances there, 4 here"


def spoil_dataset(checkout, given):
    checkout.write("datasets/quick/ids.txt", "repo-0 repo-1 repo-2 repo-3 repo-4")
    return "reuse.bench: dataset is", str(given)


def spoil_manifest(checkout, given):
    (given / "manifest.json").unlink()
    return "reuse.bench", f"{given} holds no manifest.json"


def spoil_child(checkout, given):
    child = next(given.parent.glob("bench-grade*"))
    (child / "manifest.json").unlink()
    return child.name, "holds no manifest.json"


def spoil_json(checkout, given):
    (given / "manifest.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    return str(given / "manifest.json"), "git lfs pull"


def spoil_stage(checkout, given):
    shutil.rmtree(given)
    shutil.copytree(next(path for path in given.parent.glob("prepare-*") if "public" not in path.name), given)
    return "reuse.bench: stage is 'prepare'", "needs 'bench'"


@pytest.mark.parametrize(
    "spoil", [spoil_instances, spoil_dataset, spoil_manifest, spoil_child, spoil_json, spoil_stage]
)
def test_what_does_not_fit_is_not_reused_and_the_field_is_named(fresh, given, spoil):
    words = spoil(fresh, given)
    reusing(fresh, given)
    out = fresh.uchide("run", "again", code=1)
    for word in words:
        assert word in out
    assert not fresh.store.exists()


def test_unknown_reuse_is_named(fresh):
    reusing(fresh, "nothing")
    assert "'nothing' is neither a folder nor an experiment" in fresh.uchide("run", "again", code=1)


# --- the rest --------------------------------------------------------------------------------------------------------
def test_a_manifest_over_one_megabyte(fresh):
    env = {"QUICK_FILES": "12000"}
    fresh.uchide("run", "x", "--until", "prepare", **env)
    manifest = next(fresh.store.glob("prepare-public*/manifest.json"))
    assert manifest.stat().st_size > 1_000_000
    assert "nothing to run" in fresh.uchide("run", "x", "--until", "prepare", **env)
    fresh.uchide("artifacts", "verify", "x")


def test_plain_snakemake_asks_the_same_planner(undisturbed, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "c", symlinks=True)
    checkout = Checkout(tmp_path / "c", undisturbed.cache)
    checkout.edit("experiments/x.yaml", "name: x", "name: x\ntitle: Said plainly")
    argv = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", "--configfile", "experiments/x.yaml"]
    for _ in range(2):
        done = subprocess.run(
            argv, cwd=checkout.path, env=checkout.environment(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Said plainly" in (checkout.path / "reports/x/index.html").read_text()
    assert "nothing to run" in checkout.uchide("run", "x")
    last = max(checkout.path.glob("artifacts/x/runs/*/plan.json"))
    assert json.loads(last.read_text())["jobs"] == {}
