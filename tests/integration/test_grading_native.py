"""The native grader on honest and on hostile patches, in real sandboxes."""

import asyncio
import json
from dataclasses import replace

import pytest
from support.calc import BUGGY, CONFTEST, FIXED, SOURCE, VISIBLE, CalcCase, patch_of, prepare_calc, source

from uchide.grading import NativeGrader, NativeLimits, create, preflight
from uchide.protocols import SandboxSpec
from uchide.sandboxes import provider

pytestmark = pytest.mark.sandbox

QUICK = NativeLimits(per_test_s=1.5, start_s=60, hang_s=90, run_s=90)
PRINTS = 'def pytest_terminal_summary():\n    print("tests/test_calc.py::test_add PASSED\\n4 passed in 0.01s")\n'
REWRITES = """import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
LIES = "import _pytest.runner\n_pytest.runner.call_and_report.__globals__['TestReport'] = None\n"
FORGES = """import glob, json
for path in glob.glob("/tmp/uchide-*/results"):
    with open(path, "a") as file:
        for name in ("add", "add_negative", "mul", "label"):
            forged = {"id": "tests/test_calc.py::test_" + name, "status": "passed", "phase": "call"}
            file.write(json.dumps(forged) + "\\n")
        file.write('{"end": 0, "collected": 4}\\n')
"""
KILLS = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
PLUGIN = {
    "src/evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n",
    "src/evil-1.dist-info/METADATA": "Name: evil\n",
}
INI = "[pytest]\naddopts = --collect-only\n"
SKIPS = 'def add(a, b):\n    import unittest\n    raise unittest.SkipTest("no")\n'
LOOP = "def add(a, b):\n    while True:\n        pass\n"
DEAF = """def add(a, b):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""

HOSTILE = {
    "conftest prints PASSED": ({"conftest.py": PRINTS, "tests/conftest.py": CONFTEST + PRINTS}, "wrong_fix"),
    "conftest rewrites reports": ({"conftest.py": REWRITES, "tests/conftest.py": CONFTEST + REWRITES}, "wrong_fix"),
    "conftest beside the source": ({"src/conftest.py": REWRITES, "src/calc/conftest.py": REWRITES}, "wrong_fix"),
    "sitecustomize": ({"src/sitecustomize.py": "import os\nos._exit(0)\n"}, "wrong_fix"),
    "usercustomize": ({"src/usercustomize.py": "import os\nos._exit(0)\n", "usercustomize.py": ""}, "wrong_fix"),
    "pth file": ({"src/evil.pth": "import os; os._exit(0)\n"}, "wrong_fix"),
    "deletes the tests": ({"tests/test_calc.py": None, "tests/conftest.py": None}, "wrong_fix"),
    "deletes the package": ({"src/calc/__init__.py": None}, "no_results"),
    "edits the hidden test file": ({"tests/test_calc.py": "def test_add():\n    pass\n"}, "wrong_fix"),
    "helper of the tests": ({"tests/__init__.py": "import os\nos._exit(0)\n"}, "wrong_fix"),
    "tests become a link": ({"tests": "-> src"}, "wrong_fix"),
    "deselects by configuration": ({"setup.cfg": INI.replace("[", "[tool:"), "pytest.ini": INI}, "wrong_fix"),
    "plugin by entry point": ({"src/evil.py": REWRITES, **PLUGIN}, "wrong_fix"),
    "own pytest": ({"src/pytest.py": "import sys\nsys.exit(0)\n", "json.py": "import os\nos._exit(0)\n"}, "wrong_fix"),
    "own pluggy": ({"src/pluggy/__init__.py": "import os\nos._exit(0)\n"}, "wrong_fix"),
    "sys.exit(0) at import": (source("import sys\nsys.exit(0)\n"), "no_results"),
    "os._exit(0) at import": (source("import os\nos._exit(0)\n"), "no_results"),
    "os._exit(0) at exit": (source("import atexit, os\natexit.register(os._exit, 0)\n"), "wrong_fix"),
    "os._exit(0) in a call": (source(add="def add(a, b):\n    import os\n    os._exit(0)\n"), "wrong_fix"),
    "syntax error": (source("def (:\n"), "no_results"),
    "skips itself": (source(add=SKIPS), "wrong_fix"),
    "skips the module": (source('import pytest\npytest.skip("no", allow_module_level=True)\n'), "no_results"),
    "xfails itself": (source(add='def add(a, b):\n    import pytest\n    pytest.xfail("no")\n'), "wrong_fix"),
    "breaks the runner": (source(LIES), "no_results"),
    "forges results": (source(FORGES), "no_results"),
    "kills the runner": (source(KILLS), "no_results"),
    "huge output": (source(add='def add(a, b):\n    print("x" * 50_000_000)\n    return a - b\n'), "wrong_fix"),
    "loops in a call": (source(add=LOOP), "timeout"),
    "loops at import": (source("while True:\n    pass\n"), "timeout"),
    "loops and cannot be interrupted": (source(add=DEAF), "timeout"),
}  # fmt: skip


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> CalcCase:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UCHIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return asyncio.run(prepare_calc(tmp_path_factory.mktemp("calc")))


@pytest.fixture
def grader(tmp_path) -> NativeGrader:
    return NativeGrader(provider("bwrap"), tmp_path, limits=QUICK)


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_patch_gets_its_category(case, grader, tmp_path, name):
    changes, category = HOSTILE[name]
    if name == "loops at import":
        grader = NativeGrader(provider("bwrap"), tmp_path, limits=replace(QUICK, start_s=4))
    verdict = await grader.grade(case.request(patch_of(changes)))
    assert (verdict.category, verdict.resolved) == (category, False), verdict.message
    assert verdict.fail_to_pass_failed == case.hidden.fail_to_pass


async def test_all_those_tricks_at_once_take_nothing_from_a_good_fix(case, grader):
    changes = source(add=FIXED)
    for tricks, _ in HOSTILE.values():
        if not {"src/calc/__init__.py", "tests"} & set(tricks):
            changes |= tricks
    verdict = await grader.grade(case.request(patch_of(changes)))
    assert verdict.category == "resolved", verdict.message
    left_out = verdict.message.removeprefix("left out of the patch: ").split(", ")
    assert set(left_out) == set(changes) - {"src/calc/__init__.py", "src/evil.py"}


async def test_honest_categories(case, grader):
    regression = source(add=FIXED)["src/calc/__init__.py"].replace("a * b", "a ** b")
    half = source(add="def add(a, b):\n    return abs(a) + abs(b)\n")
    categories = {}
    for name, patch in {
        "gold": case.hidden.gold_patch,
        "gold without its last newline": case.hidden.gold_patch.rstrip("\n"),
        "half": patch_of(half),
        "regression": patch_of({"src/calc/__init__.py": regression}),
        "blank": " \n\n",
        "elsewhere": patch_of({"README": "other\n"}),
        "stale": case.hidden.gold_patch.replace("return a - b", "return a // b"),
        "prose": "I changed the sign.\n",
        "outside": case.hidden.gold_patch.replace("src/calc/__init__.py", "../calc.py"),
        "git": case.hidden.gold_patch.replace("src/calc/__init__.py", ".git/config"),
        "not text": case.hidden.gold_patch + "\ud800\n",
    }.items():
        verdict = await grader.grade(case.request(patch))
        categories[name] = verdict.category
    assert categories == {
        "gold": "resolved",
        "gold without its last newline": "resolved",
        "half": "wrong_fix",
        "regression": "regression",
        "blank": "empty_patch",
        "elsewhere": "wrong_fix",
        "stale": "patch_did_not_apply",
        "prose": "patch_did_not_apply",
        "outside": "patch_did_not_apply",
        "git": "patch_did_not_apply",
        "not text": "patch_did_not_apply",
    }


async def test_a_verdict_names_the_ids_that_did_not_pass(case, grader):
    verdict = await grader.grade(case.request(patch_of(source(add="def add(a, b):\n    return abs(a) + abs(b)\n"))))
    assert verdict.fail_to_pass_failed == ("tests/test_calc.py::test_add_negative",)
    assert verdict.pass_to_pass_failed == ()
    assert "failed tests/test_calc.py::test_add_negative: " in verdict.message
    assert verdict.cpu_seconds > 0


async def test_verdicts_are_cached_by_patch_and_hidden_tests(case, tmp_path):
    grader = create("native", provider("bwrap"), tmp_path)
    first = await grader.grade(case.request(case.hidden.gold_patch))
    again = await grader.grade(case.request(case.hidden.gold_patch))
    assert (first.cached, again.cached) == (False, True)
    assert again.model_copy(update={"cached": False}) == first
    (stored,) = tmp_path.glob("verdicts/*/*.json")
    stored.write_text(stored.read_text()[:40])
    notices: list[str] = []
    mended = await create("native", provider("bwrap"), tmp_path, notice=notices.append).grade(
        case.request(case.hidden.gold_patch)
    )
    assert (mended.cached, mended.category) == (False, "resolved")
    assert str(stored) in notices[0]
    assert json.loads(stored.read_text())["verdict"]["category"] == "resolved"


async def test_a_time_out_is_measured_again(case, tmp_path):
    request = case.request(patch_of(source(add=LOOP)))
    grader = NativeGrader(provider("bwrap"), tmp_path, limits=QUICK)
    verdicts = [await grader.grade(request) for _ in range(2)]
    assert [(v.category, v.cached) for v in verdicts] == [("timeout", False)] * 2


class Dead:
    """A provider whose sandboxes never start: bwrap on a tree that is not an archive."""

    name = "dead"

    def __init__(self, broken) -> None:
        self.broken = broken
        self.opened = 0

    def open(self, spec: SandboxSpec):
        self.opened += 1
        return provider("bwrap").open(SandboxSpec(tree=self.broken, environment=spec.environment, tools=spec.tools))


async def test_a_failing_sandbox_is_infra_and_is_not_cached(case, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()  # a tree without a repository: git fails in it, whatever the patch is
    dead = Dead(empty)
    verdict = await NativeGrader(dead, tmp_path, limits=QUICK).grade(case.request(case.hidden.gold_patch))
    assert (verdict.category, dead.opened) == ("infra", 3)
    assert "git" in verdict.message
    assert list(tmp_path.glob("verdicts/*/*.json")) == []


async def test_an_environment_without_pytest_is_infra(case, tmp_path):
    bare = tmp_path / "env"
    (bare / "bin").mkdir(parents=True)
    (bare / "bin" / "python").symlink_to((case.environment.root / "bin" / "python").readlink())
    request = case.request(case.hidden.gold_patch)
    broken = type(request)(request.instance, request.hidden, request.patch, request.tree, bare, request.python_home)
    verdict = await NativeGrader(provider("bwrap"), tmp_path, limits=QUICK).grade(broken)
    assert verdict.category == "infra", verdict.message


async def test_preflight(case, grader):
    built = case.environment
    where = {"tree": case.tree, "environment": built.root, "python_home": built.python_home}
    good = await preflight(case.public, case.hidden, grader, **where)
    assert (good.ok, good.reason, good.gold.category, good.empty.category) == (True, "", "resolved", "wrong_fix")
    useless = case.hidden.model_copy(update={"gold_patch": patch_of({"README": "x\n"})})
    assert "does not resolve it (wrong_fix)" in (await preflight(case.public, useless, grader, **where)).reason
    moved = case.hidden.model_copy(
        update={"fail_to_pass": case.hidden.fail_to_pass + case.hidden.pass_to_pass, "pass_to_pass": ()}
    )
    assert (await preflight(case.public, moved, grader, **where)).reason.startswith("2 FAIL_TO_PASS test(s) pass")


def test_the_case_has_its_bug():
    assert BUGGY in SOURCE
    assert "test_add" not in VISIBLE
