"""Release pairs: rows, commands and measuring. Nothing here is built: that needs a package index."""

import json
from pathlib import Path

import pytest

from uchide.datasets import load
from uchide.datasets.measure import compare
from uchide.errors import DatasetError

FOLDER = Path(__file__).parents[2] / "datasets" / "release-bugs"
DATA = load("release-bugs", FOLDER)
ROWS = [json.loads(line) for line in (FOLDER / "release-bugs.jsonl").read_text(encoding="utf-8").split("\n") if line]


def test_rows_are_read_in_order():
    assert DATA.ids == tuple(row["id"] for row in ROWS)
    assert len(DATA.ids) == 20


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_runner_and_paths_make_up_the_command(row):
    typed = DATA.row(row["id"])
    words = [*typed.test_runner.argv, *typed.test_paths]
    left_out = [word for word in row["test_command"] if word not in words]
    assert all(word.startswith(("--junitxml", "--settings", "--parallel", "--noinput")) for word in left_out)
    assert not [word for word in typed.test_paths if word.startswith("-")]
    assert typed.test_runner.kind == row["runner"]
    assert typed.test_paths


def test_options_keep_their_values():
    assert DATA.row("semver-2102").test_runner.argv[5:] == ("-q", "-c", "/dev/null", "--rootdir=.", "--noconftest")
    assert DATA.row("semver-2102").test_paths == ("test_semver.py",)
    deselected = "tests/test_diff_text.py::TestDeepDiffText::test_enums"
    assert DATA.row("deepdiff-502").test_runner.argv[-2:] == ("--deselect", deselected)
    assert DATA.row("django-16255").test_runner.argv == ("python", "tests/runtests.py")
    assert DATA.row("django-16255").test_paths == ("sitemaps_tests",)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_issue_tells_nothing_hidden(row):
    shown = DATA.issue(row["id"]).model_dump_json()
    hidden = (
        *row["fail_to_pass"],
        *row["test_files"],
        row["notes"] or "-",
        row["pass_to_pass_sha256"],
        f"=={row['after']}",
    )
    assert not [word for word in hidden if len(word) > 8 and word in shown]
    assert DATA.issue(row["id"]).expected == row["snippet_after_output"]


def test_only_stable_passes_count():
    before = {
        "a": "passed",
        "b": "failed",
        "d": "xpassed",
        "e": "passed",
        "f": "passed",
        "u[/testbed/x]": "passed",
        "v[/env/lib/p.py]": "passed",
    }
    runs = [
        {
            "a": "passed",
            "b": "passed",
            "c": "passed",
            "d": "xpassed",
            "e": "passed",
            "t[12:01]": "passed",
            "u[/testbed/x]": "passed",
        },
        {
            "a": "passed",
            "b": "passed",
            "c": "passed",
            "d": "passed",
            "e": "failed",
            "t[12:02]": "passed",
            "u[/testbed/x]": "passed",
        },
        {
            "a": "passed",
            "b": "passed",
            "c": "passed",
            "d": "passed",
            "e": "passed",
            "t[12:03]": "passed",
            "u[/testbed/x]": "passed",
        },
    ]
    found = compare(before, runs)
    assert found.fail_to_pass == ("b", "c")
    assert found.pass_to_pass == ("a",)


def copy(tmp_path: Path, change) -> Path:
    rows = [dict(row) for row in ROWS[:2]]
    sdists = json.loads((FOLDER / "sdists.json").read_text())
    change(rows, sdists)
    (tmp_path / "release-bugs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sdists.json").write_text(json.dumps(sdists))
    return tmp_path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows, sdists: rows[1].update(id=rows[0]["id"]), ["lines 1 and 2"]),
        (lambda rows, sdists: rows[1].update(test_deps=["pytest"]), ["line 2", "test_deps.0"]),
        (lambda rows, sdists: rows[1].update(test_deps=["x==1 --index-url=y"]), ["line 2", "test_deps.0"]),
        (lambda rows, sdists: rows[0].update(source_files=["../../etc/passwd"]), ["line 1", "source_files.0"]),
        (lambda rows, sdists: rows[0].update(fail_to_pass=[]), ["fail_to_pass"]),
        (lambda rows, sdists: rows[0].update(python="3"), ["python"]),
        (lambda rows, sdists: rows[0].pop("env"), ["env", "required"]),
        (lambda rows, sdists: rows[0].update(extra=1), ["extra"]),
        (lambda rows, sdists: sdists.pop("humanize==4.2.1"), ["humanize-421", "humanize==4.2.1"]),
        (lambda rows, sdists: sdists.update({"humanize==4.2.1": "abc"}), ["sdists.json"]),
    ],
)
def test_bad_datasets(tmp_path, change, words):
    path = copy(tmp_path, change)
    with pytest.raises(DatasetError) as caught:
        load("release-bugs", path)
    assert all(word in str(caught.value) for word in words)
