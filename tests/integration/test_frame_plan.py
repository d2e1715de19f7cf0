"""What plans which jobs: one finished experiment, copied for every edit. Only the fixture starts Snakemake."""

import os
import shutil
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

import pytest
from frame import IGNORE, Checkout

BENCH = {"bench-generate": 4, "bench-grade": 4, "bench": 1}
PICKS = {"tts-pick": 1, "tts-grade": 1, "tts": 1, "report": 1}
TTS = {"tts-matrix": 1, **PICKS}
PREPARE = {"prepare-public": 1, "prepare-hidden": 1, "prepare": 1}
ALL = {**PREPARE, "test": 1, **BENCH, **TTS}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    checkout = Checkout.make(tmp_path_factory.mktemp("frame") / "with space")
    assert checkout.counts() == ALL
    checkout.uchide("run", "x")
    return checkout


@pytest.fixture
def checkout(finished, tmp_path):
    """A copy of the finished checkout, elsewhere and with other file times, its cache shared."""
    shutil.copytree(finished.path, tmp_path / "c", symlinks=True, copy_function=shutil.copyfile, ignore=IGNORE)
    return Checkout(tmp_path / "c", finished.cache)


def test_a_finished_experiment_starts_nothing(finished):
    runs = list(finished.path.glob("artifacts/x/runs/*"))
    before = getrusage(RUSAGE_CHILDREN)
    out = finished.uchide("run", "x")
    after = getrusage(RUSAGE_CHILDREN)
    assert "nothing to run" in out
    assert "selected by cross_agent" in out
    assert "reports/x/index.html" in out
    assert list(finished.path.glob("artifacts/x/runs/*")) == runs
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 4


def test_a_copy_elsewhere_and_touched_files_plan_nothing(checkout):
    for path in checkout.path.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    assert checkout.counts() == {}


COMMENTED = [
    "stages/bench.py",
    "stages/tts.py",
    "src/uchide/selection/selectors.py",
    "src/uchide/records/base.py",
    "src/uchide/pipeline/stages/tts_pick.py",
    "src/uchide/tools/run_tests.py",
]


def test_comments_and_blank_lines_plan_nothing_and_say_nothing(checkout):
    for rel in COMMENTED:
        text = (checkout.path / rel).read_text().rstrip("\n")
        checkout.write(rel, f"# first\n\n{text}  # last\n\n\n# more\n")
    out = checkout.uchide("run", "x", "--dry-run")
    assert "nothing to run" in out
    assert "other code" not in out


def git(path, *args):
    done = subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *args], cwd=path, check=True)
    return done.returncode


def test_git_clean_with_artifacts_outside_plans_nothing_and_restores_pointers(checkout, tmp_path):
    shutil.move(checkout.path / "artifacts", tmp_path / "outside")
    checkout.write(".gitignore", "/artifacts/\n/reports/\n__pycache__/\n/cache/\n")
    git(checkout.path, "init", "-q")
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-qm", "all")
    checkout.env["UCHIDE_ARTIFACTS"] = str(tmp_path / "outside")
    git(checkout.path, "clean", "-ffdxq")
    assert not (checkout.path / "reports").exists()
    assert "nothing to run" in checkout.uchide("run", "x")
    assert (checkout.path / "reports/x/index.html").is_file()
    shutil.rmtree(tmp_path / "outside")
    assert checkout.counts() == ALL


CODE = "\n\ndef added():\n    return 1\n"

EDITS = {
    "selector code": (lambda c: append(c, "src/uchide/selection/selectors.py"), PICKS),
    "matrix code": (lambda c: append(c, "src/uchide/selection/matrix.py"), TTS),
    "pick's program": (lambda c: append(c, "stages/tts.py"), TTS),
    "report template": (lambda c: append(c, template(c), "<!-- x -->\n"), {"report": 1}),
    "report code": (lambda c: append(c, "src/uchide/report/page.py"), {"report": 1}),
    "store code": (lambda c: append(c, "src/uchide/store/rows.py"), {}),
    "command line": (lambda c: append(c, "src/uchide/cli/text.py"), {}),
    "weight": (lambda c: config(c, "selection: {weights: {bug: 0.4, regression: 0.6}}"), PICKS),
    "selectors": (lambda c: config(c, "selection: {selectors: [first]}"), PICKS),
    "admission": (lambda c: config(c, "selection: {matrix: {runs: 2}}"), TTS),
    "title": (lambda c: config(c, "title: Other"), {"report": 1}),
    "policy": (lambda c: config(c, "reuse: {}"), {}),
    "agent": (
        lambda c: c.edit("experiments/x.yaml", "agent: quick", "agent: {name: quick, flag: 1}"),
        {**BENCH, **TTS},
    ),
    "another run": (
        lambda c: c.edit("experiments/x.yaml", "runs: 2", "runs: 3"),
        {"bench-generate": 2, "bench-grade": 2, "bench": 1, **TTS},
    ),
    "another arm": (
        lambda c: config(c, "arms: {main: {}, other: {agent: {name: quick, flag: 1}}}"),
        {**BENCH, "tts-matrix": 1, "tts-pick": 1, "tts-grade": 1, "tts": 1, "report": 1},
    ),
    "dataset": (lambda c: c.write("datasets/quick/ids.txt", "repo-0 repo-1 repo-2 repo-3 other-4"), ALL),
}


def append(checkout, rel, text=CODE):
    path = checkout.path / rel
    path.write_text(path.read_text() + text)


def template(checkout):
    folder = checkout.path / "src/uchide/report/templates"
    return next(path for path in sorted(folder.rglob("*")) if path.is_file()).relative_to(checkout.path)


def config(checkout, line):
    append(checkout, "experiments/x.yaml", line + "\n")


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_plans_exactly_what_it_affects(checkout, name):
    edit, expected = EDITS[name]
    edit(checkout)
    out = checkout.uchide("run", "x", "--dry-run")
    assert checkout.parse_counts(out) == expected
    assert "other code" not in out


def test_undoing_an_edit_finds_the_old_results(checkout):
    rel = "src/uchide/selection/selectors.py"
    before = (checkout.path / rel).read_text()
    append(checkout, rel)
    assert checkout.counts() == PICKS
    checkout.write(rel, before)
    assert checkout.counts() == {}


@pytest.mark.parametrize(
    ("rel", "text", "said"),
    [
        ("src/uchide/agents/prompts/quick.md", "More.\n", ["bench-generate"]),
        ("src/uchide/agents/__init__.py", CODE, ["bench-generate"]),
        ("src/uchide/datasets/environments.py", CODE, ["prepare-hidden and prepare-public", "bench"]),
        ("src/uchide/tools/line_edit.py", CODE, ["bench-generate"]),
    ],
)
def test_code_drift_of_expensive_stages_is_said_and_followed_when_asked(checkout, rel, text, said):
    append(checkout, rel, text)
    out = checkout.uchide("run", "x", "--dry-run")
    for words in said:
        assert f"{words} was made by other code" in out or f"{words}: " in out
    assert "--from bench" in out
    plain = checkout.parse_counts(out)
    assert not set(plain) & {*BENCH, *PREPARE}
    assert checkout.counts("--from", "bench") == {**plain, **BENCH, **TTS}
    checkout.edit("experiments/x.yaml", "policy: {", "policy: {code_drift: rerun, ")
    rerun = checkout.counts()
    assert rerun["bench-generate"] == 4
    assert checkout.counts() == rerun  # a dry run remembers nothing


def test_from_until_and_subsets(checkout):
    assert checkout.counts("--from", "tts") == TTS
    assert checkout.counts("--from", "tts-pick") == PICKS
    assert checkout.counts("--from", "report") == {"report": 1}
    assert checkout.counts("--from", "test") == {"test": 1, **BENCH, **TTS}
    assert checkout.counts("--from", "prepare", "--until", "test") == {**PREPARE, "test": 1}
    one = {**ALL, "bench-generate": 2, "bench-grade": 2}
    assert checkout.counts("-i", "repo-3") == one
    assert checkout.counts("--limit", "1", "--repo", "repo") == one
    assert checkout.counts("--limit", "3")["prepare-public"] == 1
    checkout.write("some.txt", "# mine\nrepo-3\n\nrepo-1\n")
    assert checkout.counts("--ids-file", "some.txt") == one
    assert checkout.counts("--runs", "1") == {"bench": 1, **TTS}


def test_the_first_shard_of_a_subset_is_the_experiments_own(checkout):
    """A shard's key takes in its own ids, not the instance set."""
    counts = checkout.counts("--limit", "3")
    assert "bench-generate" not in counts
    assert counts["bench"] == 1


WRONG = [
    (("run", "nope"), "there is no experiment 'nope'", 1),
    (("run", "x", "--until", "synth"), "there is no stage 'synth'", 1),
    (("run", "x", "--from", "sft", "-n"), "no such stage", 1),
    (("run", "x", "-i", "repo-9", "-n"), "no instance 'repo-9'", 1),
    (("run", "x", "--repo", "zzz", "-n"), "no instance is left after repo=zzz", 1),
    (("run", "x", "--ids-file", "nope.txt"), "cannot be read", 1),
    (("run", "x", "--until", "bench", "--summary", "s.md"), "--until bench makes no report", 1),
    (("run", "x", "--runs", "0"), "runs", 2),
    (("run",), "EXPERIMENT", 2),
    (("show", "x", "repo-77"), "no instance 'repo-77'", 1),
    (("artifacts", "verify", "nope"), "'nope' is no experiment", 1),
]


@pytest.mark.parametrize(("args", "says", "code"), WRONG)
def test_wrong_usage_is_one_clear_message(finished, args, says, code):
    out = finished.uchide(*args, code=code)
    assert says in out
    assert "Traceback" not in out


def test_broken_code_is_named(checkout):
    append(checkout, "src/uchide/selection/selectors.py", "\ndef (:\n")
    out = checkout.uchide("artifacts", "ls")
    assert "tts-pick.main" in out
    out = checkout.uchide("plan", "x", code=1)
    assert "selectors.py is not Python" in out or "SyntaxError" in out


def test_showing_and_verifying(finished):
    assert "x: resolved of 5" in finished.uchide("show", "x")
    out = finished.uchide("show", "x", "repo-2")
    assert "main.r02_s1002.repo-2" in out
    assert "cross_agent" in out
    assert "18 artifacts" in finished.uchide("artifacts", "verify")
    assert "7 artifacts" not in finished.uchide("artifacts", "verify", "x")
    assert "used by" in finished.uchide("artifacts", "ls", "x")
    assert "total" in finished.uchide("artifacts", "du")
    assert "nothing is running" in finished.uchide("status")


def test_results_are_of_the_experiment_as_it_is_now(checkout):
    pointer = checkout.path / "reports/x"
    pointer.unlink()
    pointer.symlink_to("../artifacts/store/report-000000000000")  # where an edit, undone since, led
    assert "x: resolved of 5" in checkout.uchide("show", "x")


def test_flipped_bytes_are_found_by_verify_and_named(checkout):
    path = next(checkout.store.glob("bench-generate.main.r01*/rows.jsonl"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert f"{path.parent.name}/rows.jsonl" in checkout.uchide("artifacts", "verify", "x", code=1)


def test_bench_removed_by_hand_and_made_with_other_content_is_followed(checkout):
    (part,) = checkout.store.glob("bench-generate.main.r01*s001*")
    shutil.rmtree(part)
    assert checkout.counts() == {}  # its stage is finished: what it made is no longer needed
    (top,) = [path.parent for path in checkout.store.glob("bench-*/manifest.json") if "." not in path.parent.name]
    shutil.rmtree(top)
    checkout.edit("src/uchide/agents/__init__.py", "task.seed % 3", "task.seed % 2")  # a model that answers otherwise
    checkout.uchide("run", "x", "--until", "bench")
    assert checkout.counts() == TTS


def test_gc_removes_only_what_nothing_points_to(checkout):
    (stale,) = checkout.store.glob("report-*")
    before = checkout.digests()
    shutil.copytree(stale, checkout.store / "report-000000000000")
    assert "unused: report-000000000000" in checkout.uchide("artifacts", "gc")
    assert (checkout.store / "report-000000000000").exists()
    checkout.uchide("artifacts", "gc", "--yes")
    assert checkout.digests() == before


def test_planning_imports_neither_pandas_nor_pyarrow_nor_snakemake(finished):
    code = (
        "import sys; sys.argv = ['uchide', 'run', 'x', '--dry-run']\n"
        "from uchide.cli.main import app\n"
        "app(standalone_mode=False)\n"
        "print('BAD' if {'pandas', 'pyarrow', 'snakemake'} & set(sys.modules) else 'GOOD')\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=finished.environment(),
        cwd=finished.path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("GOOD\n"), done.stdout + done.stderr


def test_parsing_the_dag_imports_neither_pandas_nor_pyarrow(finished):
    plan = next(finished.path.glob("artifacts/x/runs/*/plan.json"))
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['snakemake', '-n', '--forceall', '-s', {str(finished.path / 'Snakefile')!r}, '-d', "
        f"{str(plan.parent / 'scratch')!r}, '--config', {'plan=' + str(plan)!r}]\n"
        "try:\n    runpy.run_module('snakemake', run_name='__main__')\n"
        "except SystemExit as end:\n    code = end.code\n"
        "print('CODE', code, sorted({'pandas', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=finished.environment(), capture_output=True, text=True)
    assert "CODE 0 []" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert "bench_generate" in done.stdout
