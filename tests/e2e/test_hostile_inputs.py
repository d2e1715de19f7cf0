"""Hostile inputs: each gives one clear error (what, where, what to do) and changes nothing that was computed already.

One table. A case lays its input into a `Place` and gives back the command or library call to try; before that call and
after it, every file of the finished artifacts must be the same.
"""

import asyncio
import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.hostile import IDS, RUN, Place, Said, bwrapped, child, flip, make_bench, quick_checkout, snapshot
from support.local import LocalSandbox, commit_all
from support.report import candidate
from support.rollouts import HAPPY, play
from support.scripted import Answer, turn

from uchide.agents import trajectory
from uchide.agents.trajectory import HeaderRecord, TrajectoryWriter
from uchide.cli.display import OnTerminal, Plain
from uchide.cli.text import say
from uchide.datasets import load
from uchide.datasets.git import git
from uchide.patches.normalise import normalise
from uchide.pipeline.progress import StageProgress
from uchide.pipeline.reuse import find_given
from uchide.records import Candidate
from uchide.sandboxes.program import find as find_bwrap
from uchide.store import Artifact, Identity, open_part, verify
from uchide.store.lease import lease
from uchide.testing.guard import Guard
from uchide.testing.worktree import apply_patch

Try = Callable[[], Said]
Lay = Callable[[Place], Try]
CASES: list = []
MINIMAL = "name: x\ndataset: {name: mini}\n"


def case(pattern: str, *, code: int = 1) -> Callable[[Lay], Lay]:
    """Put a function into the table. `pattern` is looked for in what was said."""

    def add(lay: Lay) -> Lay:
        CASES.append(pytest.param(lay, pattern, code, id=lay.__name__))
        return lay

    return add


def add_each(prefix: str, table: dict[str, tuple], make: Callable[..., Lay], *, code: int = 1) -> None:
    """Rows `name: (input, pattern[, code])` of one kind."""
    for name, (data, pattern, *rest) in table.items():
        CASES.append(pytest.param(make(data), pattern, rest[0] if rest else code, id=f"{prefix}-{name}"))


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    where = Place(tmp_path / "place", monkeypatch, capsys)
    make_bench(where.store)
    return where


@pytest.mark.parametrize(("lay", "pattern", "code"), CASES)
def test_one_clear_error_and_nothing_lost(place, lay, pattern, code):
    attempt = lay(place)
    before = snapshot(place.store)
    said = attempt()
    assert re.search(pattern, said.text, re.DOTALL), said.text
    assert said.code == code, said.text
    assert "Traceback" not in said.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", said.text)
    after = snapshot(place.store)
    assert {name: after.get(name) for name in before} == before


# --- configuration ---------------------------------------------------------------------------------------------------
def experiment_of(data: str | bytes) -> Lay:
    return lambda place: lambda: place.experiment(data)


add_each(
    "config",
    {
        "unknown-key": (MINIMAL + "colour: red\n", r"x.yaml:3: unknown key 'colour'\n  valid here: ablate, agent,"),
        "near-miss": (MINIMAL + "polcy: {max_infra: 1}\n", r"x.yaml:3: unknown key 'polcy'\n  did you mean 'policy'\?"),
        "near-miss-inside": (MINIMAL + "policy:\n  max_infr: 0.1\n", r"x.yaml:4: .*'policy.max_infr'.*'max_infra'"),
        "wrong-type": (MINIMAL + "runs: many\n", r'x.yaml:3: runs: .*integer.*\(got "many"\)'),
        "number-as-text": (MINIMAL + 'runs: "8"\n', r'x.yaml:3: runs: .*\(got "8"\)'),
        "zero-runs": (MINIMAL + "runs: 0\n", r"x.yaml:3: runs: .*greater than or equal to 1.*\(got 0\)"),
        "yaml-no": ("name: no\ndataset: {name: mini}\n", r"x.yaml:1: 'no' is ambiguous\n  write true or false"),
        "yaml-on": (MINIMAL + "on: push\n", r"x.yaml:3: 'on' is ambiguous"),
        "octal": (MINIMAL + "runs: 010\n", r"x.yaml:3: '010' is ambiguous\n.*decimal"),
        "base-60": (MINIMAL + "runs: 1:30\n", r"x.yaml:3: '1:30' is ambiguous\n.*quote"),
        "duplicate-key": (MINIMAL + "runs: 1\nruns: 2\n", r"x.yaml:4: key 'runs' stands here and in line 3\n  remove"),
        "tab": ("name: x\ndataset:\n\tname: mini\n", r"x.yaml:3: .*'\\t'"),
        "empty": ("", r"x.yaml: a mapping .* was expected"),
        "list": ("- name: x\n", r"x.yaml: a mapping"),
        "not-utf-8": (b"name: x\ntitle: caf\xe9\n", r"x.yaml is not UTF-8 \(byte 18\)\n  save it as UTF-8"),
        "utf-16": ((MINIMAL).encode("utf-16"), r"x.yaml is not UTF-8 \(byte 0\)"),
        "nul": ("name: x\0\n", r"x.yaml: not YAML"),
        "merge": ("base: &b {name: mini}\nname: x\ndataset: {<<: *b}\n", r"x.yaml:3: merge keys .*\n  write"),
        "alias-bomb": (
            "a: &a [1, 2, 3, 4, 5, 6, 7, 8]\n"
            + "".join(f"{n}: &{n} [{', '.join([f'*{p}'] * 8)}]\n" for p, n in zip("abcdef", "bcdefg", strict=True)),
            r"x.yaml:\d+: .*repeated too often",
        ),
        "tag": ("name: !!python/object/apply:os.system [id]\n", r"x.yaml:1: .*tag|x.yaml:1: name"),
        "lfs-pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", r"git lfs pull"),
        "two-documents": (MINIMAL + "---\nname: y\n", r"x.yaml:3: .*another document"),
        "unknown-dataset": ("name: x\ndataset: {name: minii}\n", r"unknown dataset 'minii'\n  known: mini"),
        "dataset-name-path": ("name: x\ndataset: {name: ../../etc}\n", r"unknown dataset '../../etc'"),
        "name-path": ("name: ../x\ndataset: {name: mini}\n", r"x.yaml:1: name: .*pattern"),
        "empty-selection": ("name: x\ndataset: {name: mini, repo: none/such}\n", r"no instance is left after repo="),
        "unknown-id": (MINIMAL.replace("mini}", "mini, ids: [slateconf-10]}"), r"no instance 'slateconf-10'\n  did"),
        "huge-number": (MINIMAL + f"runs: {'9' * 5000}\n", r"x.yaml:3: a number of 5000 digits"),
        "half-a-character": (MINIMAL + 'title: "\\ud83d"\n', r"x.yaml:3: .* is not text: it holds half a character"),
        "list-as-key": ("? [a, b]\n: 1\n", r"x.yaml:1: a list or mapping as key is not text"),
        "deep": (MINIMAL + "x: " + "[" * 3000 + "]" * 3000 + "\n", r"x.yaml: not YAML"),
        "bom": (b"\xef\xbb\xbf" + MINIMAL.encode(), r"x: \d+ instances of mini, 8 runs", 0),
        "anchor": ("name: x\ndataset: &d {name: mini}\n", r"x: \d+ instances of mini", 0),
    },
    experiment_of,
)  # fmt: skip


@case(r"there is no experiment '.*gone.yaml'\n  in .*experiments: .*mini")
def config_missing_file(place):
    return lambda: place.uchide("run", str(place.folder / "gone.yaml"), "--dry-run")


@case(r"there is no experiment '.*folder.yaml'")
def config_folder_instead_of_file(place):
    (place.folder / "folder.yaml").mkdir()
    return lambda: place.uchide("run", str(place.folder / "folder.yaml"), "--dry-run")


@case(r"x.yaml cannot be read: Permission denied|x: \d+ instances")
def config_unreadable(place):
    path = place.write("x.yaml", MINIMAL)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads everything")
    return lambda: place.uchide("run", str(path), "--dry-run")


@case(r"x.yaml:2: dataset: input should be an object \(got \"mini\"\)")
def config_wrong_section_with_an_option_for_it(place):
    return lambda: place.experiment("name: x\ndataset: mini\n", "-i", "slateconf-101")


@case(r"--ids-file .*ids.txt cannot be read: .*can't decode byte 0xe9")
def ids_file_not_utf8(place):
    ids = place.write("ids.txt", b"caf\xe9\n")
    return lambda: place.experiment(MINIMAL, "--ids-file", str(ids))


@case(r"there is no stage 'benc'\n  stages, in order: prepare, test, bench, tts, report")
def unknown_stage(place):
    return lambda: place.experiment(MINIMAL, "--until", "benc")


@case(r"no instance '\\x1b\[31m\[red\]x\\u202e'")
def instance_id_with_markup_on_the_terminal(place):
    return lambda: place.experiment(MINIMAL, "-i", "\x1b[31m[red]x\u202e")


# --- datasets --------------------------------------------------------------------------------------------------------
ROW = {
    "instance_id": "a__b-1", "repo": "a/b", "base_commit": "0" * 40, "version": "1", "problem_statement": "Broken.",
    "patch": "diff", "test_patch": "diff", "FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": '["t.py::b"]',
}  # fmt: skip


def rows(*changes: dict) -> str:
    return "".join(json.dumps({**ROW, **change}, ensure_ascii=False) + "\n" for change in changes)


def dataset_of(data: str | bytes) -> Lay:
    return lambda place: lambda: place.uchide("dataset", "check", "swebench", str(place.write("d.jsonl", data)))


add_each(
    "dataset",
    {
        "lfs-pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", r"LFS pointer.*git lfs pull"),
        "empty": ("", r"d.jsonl is empty"),
        "truncated": (rows({}, {"instance_id": "a__b-2"})[:-30], r"d.jsonl, line 2: the file ends in the middle"),
        "not-json": ("{'single': 1}\n" + rows({}), r"d.jsonl, line 1: not JSON"),
        "duplicate": (rows({}, {"instance_id": "a__b-2"}, {}), r"instance a__b-1 is on line 1 and line 3"),
        "commit-injection": (rows({"base_commit": "0" * 40 + "; rm -rf /"}), r"line 1: base_commit: .*pattern"),
        "commit-newline": (rows({"base_commit": "0" * 40 + "\n"}), r"d.jsonl, line 1: base_commit"),
        "id-traversal": (rows({"instance_id": "../../etc/passwd"}), r"d.jsonl, line 1: instance_id: .*pattern"),
        "id-control-bytes": (rows({"instance_id": "a\x1b[31m"}), r"d.jsonl, line 1: instance_id: .*pattern"),
        "bad-test-list": (rows({"FAIL_TO_PASS": "t.py::a"}), r"line 1: FAIL_TO_PASS: .*JSON list"),
        "byte-order-mark": (b"\xef\xbb\xbf" + rows({}).encode(), r"byte order mark\n  save it as plain UTF-8"),
        "not-utf-8": (rows({}).encode() + b"\xff\n", r"d.jsonl, line 2: byte 0xff is not UTF-8"),
        "u2028": (rows({"problem_statement": "one\u2028two\u0085three"}, {"instance_id": "a__b-2"}), r"2 instances", 0),
        "u2028-with-fault": (rows({"problem_statement": "one\u2028two"}, {"version": ""}), r"d.jsonl, line 2: version"),
    },
    dataset_of,
)  # fmt: skip


@case(r"there is no instance|has no instance 'a__b-9'\n  did you mean a__b-1\?")
def dataset_unknown_id(place):
    dataset = load("swebench", place.write("d.jsonl", rows({})))
    return lambda: place.call(lambda: dataset.split("a__b-9"))


@case(r"one\u2028two")
def dataset_u2028_survives(place):
    dataset = load("swebench", place.write("d.jsonl", rows({"problem_statement": "one\u2028two"})))
    return lambda: Said(1, dataset.issue("a__b-1").problem_statement)


@case(r"unknown kind of file '.csv'\n  known: .json, .jsonl, .parquet")
def dataset_unknown_ending(place):
    return lambda: place.uchide("dataset", "check", "swebench", str(place.write("d.csv", "a,b\n")))


@case(r"d.parquet is not a Parquet file")
def dataset_not_parquet(place):
    return lambda: place.uchide("dataset", "check", "swebench", str(place.write("d.parquet", b"PAR1garbage")))


@case(r"'a b\[red\]' is no name for an instance\n  letters, digits")
def dataset_mini_folder_name(place):
    place.write("m/repos/r/a.py", "")
    place.write("m/instances/a b[red]/bug.patch", "")
    place.write("m/instances/a b[red]/instance.yaml", "repo: r\nsplit: train\nfault: f\nproblem_statement: p\n")
    return lambda: place.uchide("dataset", "check", "mini", str(place.folder / "m"))


# --- patches ---------------------------------------------------------------------------------------------------------
HEAD = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
HUNK = "@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"


def patch_of(patch: str) -> Lay:
    """Applied as the grader does; says what `calc.py` holds then."""

    def lay(place: Place) -> Try:
        for folder in ("testbed", "share", "tmp"):
            (place.folder / "box" / folder).mkdir(parents=True)
        place.write("box/testbed/calc.py", "def add(a, b):\n    return a - b\n")
        place.write("box/testbed/dos.py", "a = 1\r\nb = 2\r\n")
        commit_all(place.folder / "box/testbed")
        sandbox = LocalSandbox(place.folder / "box")

        def attempt() -> Said:
            said = place.call(lambda: asyncio.run(apply_patch(sandbox, normalise(patch), Guard())))
            outside = {path.name for path in (place.folder / "box").iterdir()} - {"testbed", "share", "tmp"}
            assert not outside
            assert not Path("/tmp/uchide-evil.py").exists()
            texts = [repr((sandbox.testbed / name).read_bytes()) for name in ("calc.py", "dos.py")]
            if said.code:
                assert texts == [repr(b"def add(a, b):\n    return a - b\n"), repr(b"a = 1\r\nb = 2\r\n")]
            return Said(said.code, said.text + "".join(texts))

        return attempt

    return lay


def new_file(name: str, mode: str = "100644", text: str = "x") -> str:
    return f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"


add_each(
    "patch",
    {
        "words": ("I could not fix it, sorry.\n", r"not a unified diff: it has no hunk"),
        "html": ("<pre>" + HEAD.replace("\n", "<br>"), r"not a unified diff"),
        "not-applying": (HEAD + HUNK.replace("a - b", "a * b"), r"does not apply to the base tree: .*calc.py"),
        "short-hunk": (HEAD + HUNK[: HUNK.index("+    ")], r"line 7 of the patch: .*hunk .* line 4"),
        "long-hunk": (HEAD + HUNK.replace("+1,2", "+1,1"), r"line 7 of the patch: more lines than the hunk"),
        "traversal": (new_file("../evil.py"), r"does not apply to the base tree: .*invalid path '../evil.py'"),
        "absolute": (new_file("/tmp/uchide-evil.py"), r"does not apply to the base tree: .*invalid path"),
        "git-folder": (new_file(".git/hooks/post-checkout", "100755"), r"invalid path '.git/hooks"),
        "through-link": (new_file("link", "120000", "/tmp") + new_file("link/evil.py"), r"beyond a symbolic link"),
        "broken-binary": ("diff --git a/b b/b\nGIT binary patch\nliteral 4\nzzzz\n", r"does not apply"),
        "surrogate": (HEAD + HUNK.replace("a + b", "'\ud800'"), r"the patch is not text"),
        "crlf": (
            "diff --git a/dos.py b/dos.py\n--- a/dos.py\n+++ b/dos.py\n@@ -1,2 +1,2 @@\n-a = 1\r\n+a = 3\r\n b = 2\r\n",
            r"a = 3\\r\\nb = 2\\r\\n", 0,
        ),
        "no-final-newline": ((HEAD + HUNK).rstrip("\n"), r"return a \+ b\\n", 0),
        "no-newline-marker": (HEAD + HUNK + "\\ No newline at end of file", r"return a \+ b'", 0),
    },
    patch_of,
)  # fmt: skip


# --- trajectories ----------------------------------------------------------------------------------------------------
def a_trajectory(path: Path, turns: int = 40) -> Path:
    with TrajectoryWriter(path) as writer:
        writer.write(
            HeaderRecord(
                candidate_id="c", arm="main", run=RUN, seed=1, instance_id="toy-1", agent="a", model="m", base_tree="t"
            )
        )
        for n in range(turns):
            writer.write(trajectory.PhaseRecord(phase="P", visit=n, exit="complete", next=None, turns=n, memo="m" * n))
    return path


def read_all(path: Path) -> str:
    notices: list[str] = []
    count = sum(1 for _ in trajectory.read(path, notices.append))
    return f"{count} records; {'; '.join(notices)}"


@case(r"^[1-9]\d? records; .*t.zst: the file is cut; \d+ records are whole", code=0)
def trajectory_cut_tail(place):
    path = a_trajectory(place.folder / "t.zst")
    path.write_bytes(path.read_bytes()[:-40])
    return lambda: place.call(lambda: read_all(path))


@case(r"t.zst is not a trajectory")
def trajectory_not_zstd(place):
    path = place.write("t.zst", b"garbage, not zstd")
    return lambda: place.call(lambda: read_all(path))


@case(r"t.zst(, record \d+: |: damaged after record \d+| is not a trajectory)", code=0)
def trajectory_flipped_bytes(place):
    path = a_trajectory(place.folder / "t.zst")
    whole = path.read_bytes()

    def attempt() -> Said:
        texts = []
        for at in range(20, len(whole), 37):
            data = bytearray(whole)
            data[at] ^= 0xFF
            path.write_bytes(data)
            texts.append(place.call(lambda: read_all(path)).text)
        return Said(0, next(text for text in texts if "t.zst" in text))

    return attempt


@case(r"t.zst, record 1: header.schema_version: .*\n  it is damaged, or another version")
def trajectory_of_a_newer_version(place):
    import zstandard

    header = '{"kind":"header","schema_version":9,"candidate_id":"c","arm":"a","run":"r","seed":1,"instance_id":"i",'
    line = header + '"agent":"a","model":"m","base_tree":"t"}\n'
    path = place.write("t.zst", zstandard.ZstdCompressor().compress(line.encode()))
    return lambda: place.call(lambda: read_all(path))


@case(r"t.zst cannot be read: No such file")
def trajectory_missing(place):
    return lambda: place.call(lambda: read_all(place.folder / "t.zst"))


# --- manifests and rows ----------------------------------------------------------------------------------------------
def verified(place: Place) -> Try:
    return lambda: place.uchide("artifacts", "verify", str(place.bench))


def given(place: Place, ids: tuple[str, ...] = IDS, stage: str = "bench") -> Try:
    return lambda: place.call(lambda: find_given(place.root, stage, str(place.bench), "d" * 64, ids))


@case(r"\d+ files: all as their manifests say", code=0)
def manifest_whole(place):
    return verified(place)


@case(r"reuse.bench: .*bench-c+ holds no manifest.json: it is not a finished artifact")
def manifest_missing(place):
    (place.bench / "manifest.json").unlink()
    return given(place)


@case(r"generate.*holds no manifest.json: it is not a finished artifact")
def manifest_of_a_part_missing(place):
    (place.generate / "manifest.json").unlink()
    return verified(place)


@case(r"bench-generate.*rows.jsonl: content is [0-9a-f]{12}, files.json says")
def manifest_flipped_byte_in_rows(place):
    flip(place.generate / "rows.jsonl")
    return verified(place)


@case(r"bench-generate.*toy-1.jsonl.zst: content is [0-9a-f]{12}")
def manifest_flipped_byte_in_side_file(place):
    flip(next(place.generate.glob("trajectories/*toy-1*")), 3)
    return verified(place)


@case(r"toy-2.jsonl.zst: content is nothing")
def manifest_side_file_gone(place):
    next(place.generate.glob("trajectories/*toy-2*")).unlink()
    return verified(place)


@case(r"manifest.json: content is")
def manifest_flipped_byte_in_itself(place):
    path = place.generate / "manifest.json"
    path.write_text(path.read_text().replace('"count": 2', '"count": 3'))
    return verified(place)


@case(r"reuse.prepare: stage is 'bench' in .*needs 'prepare'")
def manifest_wrong_stage(place):
    return given(place, stage="prepare")


@case(r"reuse.bench: instances is .*\(2 instances there, 1 here\)")
def manifest_wrong_instance_set(place):
    return given(place, ids=IDS[:1])


@case(r"manifest.json: schema_version")
def manifest_of_a_newer_version(place):
    path = place.bench / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    return given(place)


@case(r"manifest.json: .*\n  it is a Git LFS pointer: run `git lfs pull`")
def manifest_lfs_pointer(place):
    (place.bench / "manifest.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    return given(place)


@case(r"reuse.bench: '.*nowhere' is neither a folder nor an experiment")
def reuse_of_nothing(place):
    return lambda: place.experiment(MINIMAL + f"reuse: {{bench: {place.folder}/nowhere}}\n")


def unfinished(place: Place, tail: bytes, before: bytes = b"") -> Try:
    """A part with one row that a killed writer left, opened again and finished."""
    identity = Identity(stage="bench", part="generate.main.r02_s1002.s000", key="e" * 12, calm="e" * 12)
    folder = place.folder / "unfinished"
    with open_part(folder, identity, {"rows": Candidate}, notice=str) as part:
        part.append(candidate(RUN, "toy-1", "+1\n"), id="toy-1")
    path = folder / "rows.jsonl"
    path.write_bytes(before + path.read_bytes() + tail)
    notices: list[str] = []

    def again() -> str:
        with open_part(folder, identity, {"rows": Candidate}, notice=notices.append) as part:
            kept = sorted(part.done())
            part.append(candidate(RUN, "toy-2", "+2\n"), id="toy-2")
            part.finish()
        verify(Artifact(folder))
        return f"{notices} kept {kept}"

    return lambda: place.call(again)


@case(r"unfinished/rows.jsonl: cut a half-written last row \(25 bytes\).*kept \['toy-1'\]", code=0)
def rows_half_written(place):
    return unfinished(place, b'{"id":"toy-2","row":{"sch')


@case(r"cut a half-written last row.*kept \['toy-1'\]", code=0)
def rows_torn_page(place):
    return unfinished(place, b"\0" * 300 + b"\n")


@case(r"rows.jsonl:1: not a row")
def rows_broken_in_the_middle(place):
    return unfinished(place, b"", before=b"\0\0garbage\n")


# --- answers of a model ----------------------------------------------------------------------------------------------
def answers_of(answer: Answer) -> Lay:
    """A rollout that gets this answer five times; says what was recorded."""

    def lay(place: Place) -> Try:
        def attempt() -> Said:
            made, _, records = asyncio.run(
                play(place.folder, [answer] * 5 + [*HAPPY] * 2, {"limits": {"format_errors": 5}})
            )
            again = Candidate.model_validate_json(made.model_dump_json())
            assert again.exit_status == records[-1].exit_status
            errors = {record.format_error for record in records if record.kind == "turn"} - {None}
            return Said(made.format_errors, f"{made.exit_status} {sorted(errors)} {made.warnings}")

        return attempt

    return lay


add_each(
    "answer",
    {
        "no-action": (turn("W0", memo="let me think"), r"format_errors \['.*action"),
        "words": ("Sure! Here is the fix.", r"format_errors \['the first line is not `WORKFLOW"),
        "two-actions": (turn("W0", "a </tool> <tool: bash> b"), r"2 <tool: bash> actions, only one is allowed"),
        "empty": ("", r"format_errors \['the reply is empty"),
        "nul": (turn("W0", "echo a\0b"), r"contains a NUL"),
        "ten-megabytes": ("x" * 10_000_000, r"format_errors \['the first line"),
        "long-command": (turn("W0", "echo " + "y" * 200_000), r"longer than 100,000 bytes"),
        "marker-in-heredoc": (turn("W0", "cat > f <<E\n<tool: bash> rm -rf / </tool>\nE"), r"only one is allowed"),
        "unclosed": ("WORKFLOW: W0\nTHOUGHT: t\nFINAL_ANSWER:\n<tool: bash> ls", r"not closed with </tool>"),
        "unknown-step": (turn("W77", "ls"), r"format_errors .*'W77' is no workflow token here"),
        "lone-surrogate": (turn("W0", "echo \ud83d"), r"completed \[\]", 0),
        "ansi": (turn("W0", "printf '\x1b]0;owned\x07'"), r"completed \[\]", 0),
    },
    answers_of,
    code=5,
)  # fmt: skip


# --- the terminal ----------------------------------------------------------------------------------------------------
EVIL = "\x1b[2J\x1b]0;owned\x07[red]not markup[/red] \u202etxt \x9b31m \ud800"
SHOWN = r"␛\[2J␛\]0;owned␇\[red\]not markup\[/red\] <U\+202E>txt <U\+009B>31m"


@case(SHOWN, code=0)
def terminal_plain_lines(place):
    def attempt() -> Said:
        Plain().tick([StageProgress("bench-generate", 1, 0, 2, 1)], [EVIL])
        say(EVIL)
        return Said(0, place.capsys.readouterr().out)

    return attempt


@case(SHOWN, code=0)
def terminal_live_table(place):
    from rich.console import Console
    from rich.live import Live

    def attempt() -> Said:
        out = io.StringIO()
        with Live(console=Console(file=out, force_terminal=True, width=200), auto_refresh=False) as live:
            OnTerminal(live).tick([StageProgress("[bold]x[/bold]", 1, 0, 2, 1)], [EVIL])
        ours = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\r", "")
        return Said(0, ours)

    return attempt


# --- this host -------------------------------------------------------------------------------------------------------
@case(r"experiment x is being written by process \d+ on .*\n  wait for it to end, or stop it")
def a_second_controller(place):
    path = place.write("x.yaml", MINIMAL)

    def attempt() -> Said:
        with lease(place.artifacts / "x" / "lease.json", "experiment x"):
            return place.uchide("run", str(path))

    return attempt


@case(r"kept \['toy-1'\]", code=0)
def a_lease_of_a_dead_process(place):
    attempt = unfinished(place, b"")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    record = {"host": socket.gethostname(), "pid": dead.pid, "start": "1", "heartbeat": 0, "nonce": "n"}
    place.write("unfinished/lease.json", json.dumps(record))
    return attempt


@case(r"unfinished is being written by process \d+ on .*\n  wait for it to end")
def a_part_that_another_process_writes(place):
    attempt = unfinished(place, b"")

    def both() -> Said:
        with lease(place.folder / "unfinished" / "lease.json", "unfinished"):
            return attempt()

    return both


@case(r"artifacts/x cannot be written: Not a directory\n  free some space or fix the permissions")
def artifacts_is_inside_a_file(place):
    path, file = place.write("x.yaml", MINIMAL), place.write("file", "")
    return lambda: place.uchide("run", str(path), artifacts=file / "artifacts")


@case(r"file/x cannot be written: Not a directory|file/x cannot be written: File exists")
def artifacts_is_a_file(place):
    path, file = place.write("x.yaml", MINIMAL), place.write("file", "")
    return lambda: place.uchide("run", str(path), artifacts=file)


@case(r"git is not installed\n  install the package git")
def git_is_missing(place):
    place.monkeypatch.setenv("PATH", str(place.folder))
    return lambda: place.call(lambda: git(place.folder, "init"))


@case(r"no usable bwrap 0.8.0 or newer: .*gone \(does not run\)\n  run: pip install")
def bwrap_is_missing(place):
    return lambda: place.call(lambda: find_bwrap([place.folder / "gone"]))


# --- whole programs --------------------------------------------------------------------------------------------------
@pytest.mark.sandbox
@case(r"artifacts/x cannot be written: Read-only file system\n  free some space or fix the permissions")
def artifacts_on_a_read_only_disk(place):
    path = place.write("x.yaml", MINIMAL)
    argv = bwrapped("--ro-bind", str(place.artifacts), str(place.artifacts))
    return lambda: child(place, [*argv, *place.command("run", str(path))])


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "latin-1"}])
def test_other_locales_show_escapes_instead_of_failing(place, locale):
    path = place.write("x.yaml", MINIMAL)
    env = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **locale}
    said = child(place, place.command("run", str(path), "--dry-run", "-i", "\u0436\u2028"), **env)
    assert said.code == 1
    assert r"has no instance '\u0436\u2028'" in said.text


def test_a_run_in_the_c_locale_keeps_other_scripts(tmp_path):
    checkout = quick_checkout(tmp_path / "c", "repo-1", "broken-1")
    checkout.edit("src/uchide/datasets/__init__.py", "it cannot be had", "\u0436\u00e9 cannot be had")
    checkout.edit("src/uchide/datasets/__init__.py", "it is wrong", "\u0436\u00e9 is wrong")
    out = checkout.uchide(
        "run", "x", "--until", "prepare", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING=""
    )
    assert re.search(r"broken-1 takes no part: (\u0436\u00e9|\\u0436\\xe9) cannot be had", out), out
    (log,) = checkout.path.glob("artifacts/x/runs/*/logs/prepare-public*")
    assert re.search(r"broken-1 takes no part: (\u0436\u00e9|\\u0436\\xe9) cannot be had", log.read_text("utf-8"))
    (rows,) = checkout.store.glob("prepare-public*/rows.jsonl")
    assert json.loads(rows.read_text())["row"]["issue"]["problem_statement"] == "\u0436\u00e9 is wrong"
    (rows,) = checkout.store.glob("prepare-public*/excluded.jsonl")
    assert json.loads(rows.read_text())["row"]["reason"] == "\u0436\u00e9 cannot be had"


@pytest.mark.sandbox
def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(tmp_path, place):
    checkout = quick_checkout(tmp_path / "c", "repo-0", "repo-1", "repo-2")
    big = "os.urandom(3 << 20)"
    checkout.edit("src/uchide/datasets/__init__.py", "write_bytes(instance_id.encode())", f"write_bytes({big})")
    checkout.edit(
        "src/uchide/datasets/__init__.py", "assert tree.read_bytes()", "assert tree.stat().st_size or tree.read_bytes()"
    )
    checkout.edit("experiments/x.yaml", "concurrency: 2", "concurrency: 1")
    artifacts = checkout.path / "artifacts"
    artifacts.mkdir()
    script = f"""if "$@"; then exit 90; fi
        cat {artifacts}/store/prepare-public*/rows.jsonl > {tmp_path}/before
        rm {artifacts}/ballast
        "$@" && cat {artifacts}/store/prepare-public*/rows.jsonl > {tmp_path}/after"""
    fill = f"dd if=/dev/zero of={artifacts}/ballast bs=1M count=25 status=none\n"
    argv = bwrapped("--size", str(32 << 20), "--tmpfs", str(artifacts))
    command = checkout.command("run", "x", "--until", "prepare")
    env = {**checkout.environment(), "PYTHONDONTWRITEBYTECODE": "1", "UCHIDE_ARTIFACTS": str(artifacts)}
    said = child(place, [*argv, "/bin/sh", "-c", fill + script, "sh", *command], **env)
    assert said.code == 0, said.text
    assert re.search(r"cannot be written: No space left on device\n +free some space", said.text), said.text
    before, after = (tmp_path / "before").read_text(), (tmp_path / "after").read_text()
    assert before.count("\n") in (1, 2)
    assert after.startswith(before)
    assert after.count("\n") == 3
    assert "Traceback" not in said.text
