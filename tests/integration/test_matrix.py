"""The cross-check matrix of a tiny repository: admission and outcomes, in real sandboxes."""

import asyncio

import pytest
from support.calc import BUGGY, FIXED, VISIBLE, CalcCase, candidate, patch_of, prepare_calc, source

from uchide.protocols import SandboxSpec
from uchide.records import Candidate, FileContent, Matrix, Suite
from uchide.sandboxes import provider
from uchide.selection import MatrixSettings, SelectionConfig, pick
from uchide.selection.matrix import build

pytestmark = pytest.mark.sandbox

GOOD = patch_of(source(add=FIXED))
HALF = patch_of(source(add="def add(a, b):\n    return abs(a) + abs(b)\n"))
HANGS = patch_of(source(add="def add(a, b):\n    while b < 0:\n        pass\n    return a + b\n"))
ADD = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
NEGATIVE = "import calc\n\n\ndef test_add():\n    assert calc.add(-1, -2) == -3\n"
REGRESSION = ("tests/test_calc.py::test_mul", "tests/test_calc.py::test_label")
FAST = MatrixSettings(min_timeout_s=1.5, base_timeout_s=2)


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> CalcCase:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCHIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return asyncio.run(prepare_calc(tmp_path_factory.mktemp("calc")))


def suite(run: str, code: str, *, f2p: tuple[str, ...] = ("test_add",), p2p: tuple[str, ...] = REGRESSION) -> Suite:
    path = f"tests/test_uchide_{run}.py"
    return Suite(
        instance_id="calc-1",
        files=(FileContent(path=path, data=code),) if code else (),
        fail_to_pass=tuple(f"{path}::{name}" if "/" not in name else name for name in f2p),
        pass_to_pass=p2p,
    )


async def matrix(case: CalcCase, candidates: list[Candidate], sandboxes=None, settings=FAST) -> Matrix:
    built = case.environment
    where = (case.tree, built.root, built.python_home)
    return await build(case.public, "main", candidates, *where, sandboxes or provider("bwrap"), settings)


async def test_three_patches_three_suites(case):
    candidates = [
        candidate("r01", HALF, suite("r01", ADD)),
        candidate("r02", GOOD, suite("r02", NEGATIVE)),
        candidate("r03", HANGS, suite("r03", ADD)),
        candidate("r04", GOOD, suite("r02", NEGATIVE)),
        candidate("r05", "", suite("r05", ADD)),
    ]
    found = await matrix(case, candidates)
    assert found.error == ""
    assert [(patch.runs, patch.applies) for patch in found.patches] == [
        (("r01",), True), (("r02", "r04"), True), (("r03",), True),
    ]  # fmt: skip
    admitted = {entry.runs: (entry.admitted, entry.reason) for entry in found.suites}
    assert admitted == {
        ("r01",): (True, ""),
        ("r02", "r04"): (True, ""),
        ("r03",): (True, ""),
        ("r05",): (False, "its run made no patch that applies"),
    }
    negative = candidates[1].suite_sha256
    new_test = "tests/test_uchide_r02.py::test_add"
    column = {patch.runs[0]: found.outcomes[patch.patch_sha256][negative][new_test] for patch in found.patches}
    assert column == {"r01": "failed", "r02": "passed", "r03": "timeout"}
    tests = {test.id: test for test in found.suites[1].tests}
    assert tests[new_test].base == ("failed",) * 3
    assert tests[new_test].own_patch == ("passed",) * 3
    assert found.processes == 3 + 3 * 3
    (choice,) = pick(found, candidates, SelectionConfig(selectors=("cross_agent",)))
    assert (choice.run, len(choice.scores), len(choice.tied)) == ("r02", 3, 1)


async def test_tests_that_may_not_vote_are_dropped_by_name(case):
    code = """import os, pathlib, time
import calc
import pytest

def test_reveals():
    assert calc.add(1, 2) == 3

def test_passes_already():
    assert calc.mul(1, 2) == 2

def test_never_passes():
    assert False

@pytest.fixture
def broken():
    raise ValueError

def test_breaks_before_its_call(broken):
    pass

def test_hangs():
    while True:
        pass

def test_unstable():
    marker = pathlib.Path("/tmp/marker")
    seen = marker.exists()
    marker.touch()
    assert seen and calc.add(1, 2) == 3 or os.path.exists("/tmp/other") or not os.mkdir("/tmp/other") and seen

@pytest.mark.parametrize("a", [1, 0])
def test_parameters(a):
    assert calc.add(a, 1) == a + 1

@pytest.mark.skip
def test_skipped():
    pass
"""
    names = ("test_reveals", "test_passes_already", "test_never_passes", "test_breaks_before_its_call", "test_hangs")
    names += ("test_unstable", "test_parameters", "test_skipped", "test_absent")
    found = await matrix(case, [candidate("r01", GOOD, suite("r01", code, f2p=names))])
    reasons = {test.id.partition("::")[2]: test.dropped for test in found.suites[0].tests if "uchide" in test.id}
    assert reasons == {
        "test_reveals": "",
        "test_passes_already": "on the base tree: passed",
        "test_never_passes": "with its own patch: failed",
        "test_breaks_before_its_call": "on the base tree: error in setup, before the test itself ran",
        "test_hangs": "on the base tree: timeout",
        "test_unstable": "on the base tree: unstable, failed, passed, passed",
        "test_parameters[1]": "",
        "test_parameters[0]": "",
        "test_skipped": "on the base tree: skipped",
        "test_absent": "on the base tree: not_found",
    }
    assert found.suites[0].admitted


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (suite("r01", ADD, p2p=()), "it has no regression test"),
        (suite("r01", ADD, f2p=()), "it has no bug-revealing test"),
        (suite("r01", ADD, p2p=("tests/test_calc.py::test_gone",)), "no regression test is left"),
        (suite("r01", "import calc\n\n\ndef test_add():\n    assert False\n"), "no bug-revealing test is left"),
        (suite("r01", "import os\nos._exit(0)\n"), "no bug-revealing test is left"),
        (Suite(instance_id="calc-1", files=(FileContent(path="src/calc/__init__.py", data=""),),
               fail_to_pass=("a",), pass_to_pass=("b",)), "it changes src/calc/__init__.py, which is not a test file"),
        (Suite(instance_id="calc-1", files=(FileContent(path="tests/conftest.py", data=""),),
               fail_to_pass=("a",), pass_to_pass=("b",)),
         "it changes tests/conftest.py, which decides how all tests run"),
        (Suite(instance_id="calc-1", files=(FileContent(path="tests/../../x/test_a.py", data=""),),
               fail_to_pass=("a",), pass_to_pass=("b",)),
         "not a path inside the repository: 'tests/../../x/test_a.py'"),
    ],
)  # fmt: skip
async def test_suites_are_refused_with_the_reason(case, made, reason):
    found = await matrix(case, [candidate("r01", GOOD, made)])
    assert [(entry.admitted, entry.reason) for entry in found.suites] == [(False, reason)]
    assert list(found.outcomes.values()) == [{}]


TURNS_INTO_SEVERAL = (
    ADD
    + """

def pytest_generate_tests(metafunc):
    if calc.add(1, 2) == 3:
        metafunc.fixturenames.append("step")
        metafunc.parametrize("step", [1, 2])
"""
)


async def test_a_test_that_a_patch_turns_into_several_is_not_found(case):
    found = await matrix(case, [candidate("r01", GOOD, suite("r01", TURNS_INTO_SEVERAL))])
    assert found.error == ""
    (entry,) = found.suites
    assert (entry.admitted, entry.reason) == (False, "no bug-revealing test is left")
    assert entry.tests[0].dropped == "with its own patch: not run"


async def test_suites_that_disagree_run_apart(case):
    changed = VISIBLE + "\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
    edits = Suite(
        instance_id="calc-1",
        files=(FileContent(path="tests/test_calc.py", data=changed),),
        fail_to_pass=("tests/test_calc.py::test_add",),
        pass_to_pass=REGRESSION,
    )
    spoils = suite("r03", "import sys, calc\nfrom test_uchide_r01 import nothing\n" + ADD)
    candidates = [
        candidate("r01", GOOD, suite("r01", ADD)),
        candidate("r02", HALF, edits),
        candidate("r03", HALF, spoils),
        candidate("r04", patch_of({"README": "x\n"}), suite("r01", NEGATIVE)),
    ]
    found = await matrix(case, candidates)
    assert [(entry.runs[0], entry.admitted) for entry in found.suites] == [
        ("r01", True), ("r02", True), ("r03", False), ("r04", False),
    ]  # fmt: skip
    row = found.outcomes[candidates[2].patch_sha256]
    assert row[edits.sha256]["tests/test_calc.py::test_add"] == "passed"
    assert set(row) == {candidates[0].suite_sha256, edits.sha256}


async def test_a_patch_that_does_not_apply_is_listed_and_left_out(case):
    stale = GOOD.replace("return a - b", "return a // b")
    found = await matrix(case, [candidate("r01", stale, suite("r01", ADD)), candidate("r02", GOOD, suite("r02", ADD))])
    assert [patch.applies for patch in found.patches] == [False, True]
    assert list(found.outcomes) == [found.patches[1].patch_sha256]
    assert [entry.reason for entry in found.suites] == ["its run made no patch that applies", ""]


async def test_no_candidate_made_anything(case):
    found = await matrix(case, [candidate("r01", "", Suite(instance_id="calc-1"))])
    assert (found.patches, found.processes, found.error) == ((), 0, "")
    assert [entry.reason for entry in found.suites] == ["it has no bug-revealing test"]


class Broken:
    """Opens real sandboxes on a tree without a repository, in which git cannot work."""

    name = "broken"

    def __init__(self, tree) -> None:
        self.tree = tree

    def open(self, spec: SandboxSpec):
        return provider("bwrap").open(SandboxSpec(tree=self.tree, environment=spec.environment, tools=spec.tools))


async def test_a_failing_sandbox_leaves_an_error_and_no_pick_by_suites(case, tmp_path):
    candidates = [candidate("r01", HALF, suite("r01", ADD)), candidate("r02", GOOD, suite("r02", ADD))]
    found = await matrix(case, candidates, Broken(tmp_path))
    assert "failed in the sandbox" in found.error
    picks = pick(found, candidates, SelectionConfig(no_suite="abstain"))
    assert {choice.selector: choice.run for choice in picks} == {
        "cross_agent": None, "self_tests": None, "first": "r01", "shortest": "r02",
    }  # fmt: skip


def test_the_patches_differ():
    assert len({GOOD, HALF, HANGS}) == 3
    assert BUGGY in VISIBLE + source()["src/calc/__init__.py"]
