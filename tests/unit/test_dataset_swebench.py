"""SWE-bench rows: both dialects, three kinds of file, and one clear error for each way a file can be wrong."""

import json
from pathlib import Path

import pytest

from uchide.datasets import load, prepare_public
from uchide.datasets.swebench import SweBench
from uchide.errors import DatasetError

ROW = {
    "instance_id": "acme__anvil-7",
    "repo": "acme/anvil",
    "base_commit": "0123456789abcdef0123456789abcdef01234567",
    "version": "1.2",
    "problem_statement": "It breaks.",
    "patch": "diff --git a/a.py b/a.py\n",
    "test_patch": "diff --git a/t.py b/t.py\n",
    "FAIL_TO_PASS": '["t.py::test_a[x, y]"]',
    "PASS_TO_PASS": "[]",
    "hints_text": "secret hint",
}
FIVE = {
    **ROW,
    "FAIL_TO_PASS": ["t.py::test_a"],
    "PASS_TO_PASS": ["t.py::test_b"],
    "image": "an/image:latest",
    "log_parser": "pytest",
    "eval_type": "pass_and_fail",
    "eval_script": "#!/bin/bash\n",
}


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("row", "dialect"), [(ROW, 4), (FIVE, 5)])
def test_both_dialects(tmp_path, row, dialect):
    data = SweBench(write(tmp_path / "d.jsonl", row))
    assert data.row("acme__anvil-7").dialect == dialect
    assert isinstance(data.row("acme__anvil-7").FAIL_TO_PASS, list)
    assert (data.ids, data.repo("acme__anvil-7"), data.split("acme__anvil-7")) == (
        ("acme__anvil-7",),
        "acme/anvil",
        "heldout",
    )


def test_the_same_rows_from_every_kind_of_file_have_one_digest(tmp_path):
    import pyarrow
    import pyarrow.parquet

    rows = [FIVE, {**FIVE, "instance_id": "acme__anvil-8"}]
    (tmp_path / "d.json").write_text(json.dumps(rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "d.parquet")
    write(tmp_path / "d.jsonl", *rows)
    found = [load("swebench", tmp_path / f"d.{ending}") for ending in ("json", "jsonl", "parquet")]
    assert {data.digest for data in found} == {found[0].digest}
    assert [data.ids for data in found] == [("acme__anvil-7", "acme__anvil-8")] * 3


def test_line_separators_inside_strings_survive(tmp_path):
    statement = "one\u2028two\u2029three\x85four\x0bfive"
    data = load("swebench", write(tmp_path / "d.jsonl", {**ROW, "problem_statement": statement}))
    assert data.issue("acme__anvil-7").problem_statement == statement


def test_nothing_hidden_in_the_issue(tmp_path):
    shown = load("swebench", write(tmp_path / "d.jsonl", ROW)).issue("acme__anvil-7").model_dump_json()
    assert "secret hint" not in shown
    assert "diff" not in shown


def without(name: str) -> dict:
    return {key: value for key, value in ROW.items() if key != name}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**ROW, "base_commit": "main"}], ["line 1", "base_commit"]),
        ([{**ROW, "base_commit": "0123456789ABCDEF0123456789abcdef01234567"}], ["base_commit"]),
        ([without("patch")], ["line 1", "patch", "required"]),
        ([{**ROW, "colour": "red"}], ["colour"]),
        ([{**ROW, "version": 3}], ["version", "string"]),
        ([{**ROW, "FAIL_TO_PASS": "test_a, test_b"}], ["FAIL_TO_PASS", "JSON list"]),
        ([{**ROW, "FAIL_TO_PASS": []}], ["FAIL_TO_PASS"]),
        ([{**ROW, "PASS_TO_PASS": [1]}], ["PASS_TO_PASS.0"]),
        ([{**ROW, "instance_id": "../etc/passwd"}], ["instance_id"]),
        ([ROW, FIVE | {"instance_id": "b"}, ROW], ["acme__anvil-7", "line 1", "line 3"]),
        ([{key: value for key, value in FIVE.items() if key != "eval_script"}], ["eval_script"]),
        ([[1, 2]], ["line 1"]),
    ],
)
def test_bad_rows(tmp_path, rows, words):
    path = write(tmp_path / "d.jsonl", *rows)
    with pytest.raises(DatasetError) as caught:
        load("swebench", path)
    assert all(word in str(caught.value) for word in [str(path), *words])


GOOD = json.dumps(ROW).encode()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (
            "d.jsonl",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            ["Git LFS pointer", "git lfs pull"],
        ),
        ("d.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", ["Git LFS pointer"]),
        ("d.jsonl", b"\xef\xbb\xbf" + GOOD, ["byte order mark"]),
        ("d.jsonl", GOOD + b"\n\xff\n", ["line 2", "0xff"]),
        ("d.jsonl", GOOD + b"\n" + GOOD[:-20], ["line 2", "middle of a row"]),
        ("d.jsonl", b"{not json}\n" + GOOD + b"\n", ["line 1", "not JSON"]),
        ("d.jsonl", b"", ["empty"]),
        ("d.jsonl", b"\n\n", ["no rows"]),
        ("d.json", GOOD, ["list of rows"]),
        ("d.json", b"[", ["not JSON"]),
        ("d.parquet", b"PAR1 no", ["Parquet"]),
        ("d.csv", b"a,b\n", [".csv", ".jsonl"]),
    ],
)
def test_bad_files(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DatasetError) as caught:
        load("swebench", path)
    assert all(word in str(caught.value) for word in [str(path), *words])


def test_missing_file(tmp_path):
    with pytest.raises(DatasetError, match="cannot read dataset file"):
        load("swebench", tmp_path / "none.jsonl")


async def test_rows_cannot_be_run_yet(tmp_path):
    data = load("swebench", write(tmp_path / "d.jsonl", ROW))
    with pytest.raises(DatasetError, match="can be checked and listed but not run"):
        await prepare_public(data, "acme__anvil-7", tmp_path, None, print)


def test_unknown_names(tmp_path):
    with pytest.raises(DatasetError, match="release-bugs"):
        load("swebunch", tmp_path)
    with pytest.raises(DatasetError, match="did you mean acme__anvil-7"):
        load("swebench", write(tmp_path / "d.jsonl", ROW)).issue("acme__anvil-8")
