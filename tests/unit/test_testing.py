"""Result lines, guarded paths and sandbox specs: the parts of `uchide.testing` and `grading` that need no sandbox."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uchide.errors import ConfigError, PatchError
from uchide.grading import create
from uchide.grading.native import judge
from uchide.records import Environment, HiddenInstance, Issue, PublicInstance, Runner
from uchide.sandboxes import provider
from uchide.selection.admission import bug_fault, is_id, pass_fault
from uchide.testing.guard import Change, hidden_guard, importable
from uchide.testing.results import TestResult, expand, holders, parse
from uchide.testing.runs import RUN_TESTS, TestRun
from uchide.testing.spec import instance_spec
from uchide.testing.worktree import check_path, parse_raw
from uchide.tools import TOOL_FILES


def lines(*entries: object) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def line(test: str, status: str = "passed", **more: object) -> dict[str, object]:
    return {"id": test, "status": status, "phase": "call", "message": "", "duration_s": 0.5, **more}


END = {"end": 0, "collected": 1}


def test_only_asked_ids_count():
    found = parse(lines(line("a"), line("b"), END), ["a"])
    assert found.results == {"a": TestResult("passed", duration_s=0.5)}
    assert found.complete


def test_the_worst_line_of_a_test_wins_in_any_order():
    for statuses in (("passed", "failed"), ("failed", "passed"), ("passed", "not_found"), ("passed", "skipped")):
        found = parse(lines(*(line("a", status) for status in statuses), END), ["a"])
        assert found.results["a"].status == next(status for status in statuses if status != "passed")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe", b"null", b"[1]", b'"a"', b"{", b"[" * 5000, b'{"id": ["a"], "status": "passed"}', b"9" * 5000,
        b'{"id": "a", "status": "great"}', b'{"id": "a", "status": ["passed"]}', b'{"status": "passed"}',
        b'{"id": "a\\u2028", "status": "passed"}', b'{"end": true, "id": "a"}', b"x" * 1_100_000,
    ],
)  # fmt: skip
def test_garbage_is_ignored_and_keeps_the_end_from_being_the_end(garbage):
    before = parse(garbage + b"\n" + lines(line("a"), END), ["a"])
    assert (before.results["a"].status, before.complete) == ("passed", True)
    after = parse(lines(line("a"), END) + garbage + b"\n", ["a"])
    assert (after.results["a"].status, after.complete) == ("passed", False)


@given(st.binary(max_size=200))
def test_nothing_makes_the_parser_fail(data):
    parse(data, ["a"])


def test_odd_values_become_plain_ones():
    values = ["x", None, True, -1, float("nan"), float("inf"), 10**400]
    found = parse(
        lines(*(line(f"t{n}", duration_s=value, message=5) for n, value in enumerate(values))),
        [f"t{n}" for n in range(7)],
    )
    assert [result.duration_s for result in found.results.values()] == [0.0] * 7
    assert {result.message for result in found.results.values()} == {""}


def test_a_class_a_file_or_a_parametrised_test_stands_for_its_tests():
    ids = ["t/a.py::C::test_x[a::b/c]", "t/a.py::C::test_y", "t/b.py::test_z"]
    for asked, count in (("t/a.py::C::test_x", 1), ("t/a.py::C", 2), ("t/a.py", 2), ("t", 3), ("t/a.py::D", 0)):
        assert len(parse(lines(*map(line, ids)), [asked]).results) == count
    assert expand(["t/a.py", "gone"], ids) == {"t/a.py": ids[:2], "gone": ["gone"]}
    assert "pkg.mod" in holders("pkg.mod.Case.test")


HIDDEN = HiddenInstance(
    instance_id="i", gold_patch="", test_files=(), test_paths=("tests/unit/test_a.py",),
    fail_to_pass=("tests/unit/test_a.py::f1", "tests/unit/test_a.py::f2"), pass_to_pass=("lib/checks.py::p",),
)  # fmt: skip
PUBLIC = PublicInstance(
    issue=Issue(instance_id="i", repo="r", problem_statement="p"),
    environment=Environment(
        key="k",
        python="3.11",
        runner=Runner(kind="django", argv=("python", "tools/runtests.py")),
        env={"A": "1"},
        pythonpath=("src", "."),
    ),
    tree="0",
)


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("tests/unit/test_a.py", True), ("tests/helpers.py", True), ("tests", True), ("lib/checks.py", True),
        ("lib", True), ("src/pkg/conftest.py", True), ("setup.cfg", True), ("docs/pyproject.toml", True),
        ("src/x.pth", True), ("src/sitecustomize.py", True), ("src/p.dist-info/entry_points.txt", True),
        ("tools/runtests.py", True), ("src/pkg/test_x.py", True), ("src/pkg/x_test.py", True),
        ("src/pkg/core.py", False), ("src/pkg/testing.py", False), ("django/test/client.py", False),
        ("libs/checks.py", False), ("testsuite/a.py", False), ("README", False),
    ],
)  # fmt: skip
def test_what_a_patch_may_not_touch(path, refused):
    guard = hidden_guard(PUBLIC, HIDDEN)
    assert guard.import_roots == ("", "src")
    assert guard.refuses(Change(path, "M", "100644")) is refused
    assert guard.refuses(Change(path, "A", "160000"))


def test_modules_that_a_path_would_become():
    assert [importable(*pair) for pair in (("src/json.py", "src"), ("src/json/a.txt", "src"), ("json.py", ""))] == [
        "json"
    ] * 3
    assert [importable(*pair) for pair in (("json.txt", ""), ("lib/json.py", "src"), ("src/json.py", ""))] == [
        "",
        "",
        "src",
    ]


def run_of(complete: bool = True, timed_out: bool = False, **statuses: str) -> TestRun:
    ids = {"f1": HIDDEN.fail_to_pass[0], "f2": HIDDEN.fail_to_pass[1], "p": HIDDEN.pass_to_pass[0]}
    results = {ids[name]: TestResult(*status.split()) for name, status in statuses.items()}
    return TestRun(results, complete=complete, timed_out=timed_out)


@pytest.mark.parametrize(
    ("run", "category"),
    [
        (run_of(f1="passed", f2="passed", p="passed"), "resolved"),
        (run_of(complete=False, f1="passed", f2="passed", p="passed"), "no_results"),
        (run_of(complete=False, timed_out=True, f1="passed", f2="passed", p="passed"), "timeout"),
        (run_of(f1="passed", f2="failed", p="failed"), "wrong_fix"),
        (run_of(f1="passed", f2="passed", p="skipped"), "regression"),
        (run_of(f1="passed", f2="passed", p="xpassed"), "regression"),
        (run_of(f1="passed", f2="xfailed", p="passed"), "wrong_fix"),
        (run_of(f1="passed", f2="passed"), "regression"),
        (run_of(f1="failed", f2="timeout", p="passed"), "timeout"),
        (run_of(f1="error collect", f2="error collect", p="not_found"), "no_results"),
        (run_of(), "no_results"),
    ],
)
def test_one_category_for_every_run(run, category):
    assert judge(HIDDEN, run).category == category


def test_which_results_reveal_a_bug_or_pass():
    failed, passed, broken = TestResult("failed"), TestResult("passed"), TestResult("error", phase="setup")
    assert [bug_fault(seen) for seen in ((failed,) * 3, (failed, TestResult("error")))] == ["", ""]
    assert [bug_fault(seen) for seen in ((), (passed,), (failed, passed), (broken,))] == [
        "not run", "passed", "unstable, failed, passed", "error in setup, before the test itself ran",
    ]  # fmt: skip
    assert [pass_fault(seen) for seen in ((passed,) * 3, (passed, failed), ())] == [
        "",
        "unstable, passed, failed",
        "not run",
    ]
    assert [is_id(test) for test in ("a b[ ]", "a\nb", " ", "a\r")] == [True, False, False, False]


def test_raw_diff_is_read_by_its_zeros():
    raw = b":100644 120000 a b T\0name with\nline\0:000000 100755 a b A\0caf\xc3\xa9.py\0"
    assert parse_raw(raw) == (Change("name with\nline", "T", "120000"), Change("café.py", "A", "100755"))
    assert parse_raw(b"") == ()


@pytest.mark.parametrize("path", ["", "/etc/passwd", "a/../../b", ".git/config", "a/.git/x", "a\nb"])
def test_paths_outside_the_repository_are_refused(path):
    with pytest.raises(PatchError):
        check_path(path)


def test_the_spec_of_an_instance():
    spec = instance_spec(PUBLIC, Path("tree"), Path("env"), Path("home"))
    assert spec.env["PYTHONPATH"] == "/testbed/src:/testbed"
    assert (spec.env["A"], json.loads(spec.env["UCHIDE_RUNNER"])["runner"]) == ("1", "django")
    assert spec.tools == RUN_TESTS == TOOL_FILES["run_tests"]


def test_graders_by_name(tmp_path):
    assert create("native", provider("bwrap"), tmp_path).name == "native"
    with pytest.raises(ConfigError, match="nearest: native"):
        create("nativ", provider("bwrap"), tmp_path)
