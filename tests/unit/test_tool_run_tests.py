"""run_tests.py on real suites: statuses, odd ids, hangs, crashes, and what it does when things are missing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.interpreters import interpreters, tool

from uchide.tools import TOOL_FILES, tool_paths

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", "--rootdir=."]


def run(
    root: Path, runner: str, argv: list[str], *args: str, env: dict[str, str] | None = None
) -> tuple[int, Any, str]:
    """(exit code, {id: entry} in order, standard output); checks the end line."""
    out = root.parent / "out.jsonl"
    out.unlink(missing_ok=True)
    full = {**os.environ, "UCHIDE_RUNNER": json.dumps({"runner": runner, "argv": argv}), **(env or {})}
    full.pop("PYTEST_ADDOPTS", None)
    full["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # faster
    command = [argv[0], tool("run_tests"), "--out", str(out), *args]
    done = subprocess.run(command, cwd=root, env=full, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    if lines and "end" in lines[-1]:
        assert lines.pop()["end"] == done.returncode
    return done.returncode, {line["id"]: line for line in lines}, done.stdout + done.stderr


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name.rpartition("::")[2]: entry["status"] for name, entry in results.items()}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


SUITE = """
import os, pytest, unittest
def test_pass(): pass
def test_fail(): assert 1 == 2
def test_skip(): pytest.skip("not today")
@pytest.mark.skip
def test_mark_skip(): pass
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.mark.xfail(run=False)
def test_xfail_no_run(): os._exit(9)
@pytest.mark.xfail
def test_xpass(): pass
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.fixture
def before(): raise ValueError("b")
@pytest.fixture
def after():
    yield
    raise ValueError("a")
def test_setup(before): pass
def test_teardown(after): pass
def test_teardown_after_fail(after): assert 0
def test_fork():
    if not os.fork():
        raise SystemExit(0)
    os.wait()
class TestSub(unittest.TestCase):
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    @unittest.expectedFailure
    def test_unexpected(self): pass
"""


def test_pytest_status_table(tmp_path: Path) -> None:
    rc, results, _ = run(write(tmp_path / "r", {"t/test_a.py": SUITE}), "pytest", PYTEST)
    assert rc == 1
    assert statuses(results) == {
        "test_pass": "passed",
        "test_fail": "failed",
        "test_skip": "skipped",
        "test_mark_skip": "skipped",
        "test_xfail": "xfailed",
        "test_xfail_no_run": "xfailed",
        "test_xpass": "xpassed",
        "test_strict": "failed",
        "test_setup": "error",
        "test_teardown": "error",
        "test_teardown_after_fail": "error",
        "test_fork": "passed",
        "test_sub": "failed",
        "test_unexpected": "failed",
    }
    phases = {name.rpartition("::")[2]: entry["phase"] for name, entry in results.items()}
    assert (phases["test_fail"], phases["test_setup"], phases["test_teardown"]) == ("call", "setup", "teardown")
    failed = results["t/test_a.py::test_fail"]
    assert failed["message"].startswith("assert 1 == 2\n")
    assert failed["duration_s"] >= 0
    assert set(failed) == {"id", "status", "phase", "message", "duration_s"}


ODD = [
    "a b",
    "[1]",
    "]",
    "x::y",
    "/a/b",
    "https://h.org/p?q=1&r=[2]#f",
    "l\\nm",
    "",
    "\\u00e9",
    "$HOME",
    "*",
    "it's",
    '"',
    "\\0",
    "a" * 90,
]


def test_odd_ids_run_again_one_by_one(tmp_path: Path) -> None:
    values = "[" + ", ".join("'" + value.replace("'", "\\'") + "'" for value in ODD) + "]"
    text = f"import pytest\n@pytest.mark.parametrize('v', {values})\ndef test_p(v): pass\n"
    root = write(tmp_path / "r", {"test_a.py": text})
    rc, listed, _ = run(root, "pytest", PYTEST, "--collect")
    assert rc == 0
    assert len(listed) == len(ODD)
    for name in list(listed)[::6]:
        assert list(run(root, "pytest", PYTEST, name)[1]) == [name]
    (tmp_path / "ids").write_text("\n".join(listed) + "\n")
    rc, results, _ = run(root, "pytest", PYTEST, "--ids-file", str(tmp_path / "ids"))
    assert rc == 0
    assert list(results) == list(listed)
    assert {entry["status"] for entry in results.values()} == {"passed"}


def test_what_collect_prints_is_a_file_of_ids(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('v', ['a b', '[x', '\\u00e9'])\ndef test_p(v): pass\n"
    root = write(tmp_path / "r", {"test_a.py": text, "test_broken.py": "import nothing_of_that_name\n"})
    env = {"PATH": os.environ["PATH"], "UCHIDE_RUNNER": json.dumps({"runner": "pytest", "argv": list(PYTEST)})}
    argv = [sys.executable, tool("run_tests"), "--collect"]
    done = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.stdout.splitlines() == list(run(root, "pytest", PYTEST, "--collect")[1])
    assert "3 collected, 1 problems" in done.stderr


def test_hang_block_exit_and_crash_do_not_stop_the_rest(tmp_path: Path) -> None:
    text = """
import os, signal, time
def test_a(): pass
def test_hang(): time.sleep(60)
def test_swallow():
    try: time.sleep(60)
    except Exception: pass
def test_block():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "4711")
    while True: time.sleep(60)
def test_exit(): os._exit(0)
def test_kill(): os.kill(os.getpid(), signal.SIGSEGV)
def test_own_alarm():
    signal.signal(signal.SIGALRM, lambda *a: None); signal.alarm(1); signal.pause()
def test_z(): pass
"""
    root = write(tmp_path / "r", {"test_a.py": text})
    rc, results, _ = run(root, "pytest", PYTEST, "--per-test-timeout", "2")
    assert rc == 1
    assert statuses(results) == {
        "test_a": "passed",
        "test_hang": "timeout",
        "test_swallow": "timeout",
        "test_block": "timeout",
        "test_exit": "crashed",
        "test_kill": "crashed",
        "test_own_alarm": "passed",
        "test_z": "passed",
    }
    assert "signal 11" in results["test_a.py::test_kill"]["message"]
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x004711" in _bytes(path)]
    assert left == []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


def test_missing_and_broken_files_do_not_stop_the_rest(tmp_path: Path) -> None:
    files = {
        "t/test_ok.py": "def test_x(): pass\nclass TestC:\n    def test_m(self): pass\n",
        "t/test_imp.py": "import nowhere_to_be_found\ndef test_x(): pass\n",
        "t/test_syn.py": "def test_x(:\n",
        "t/test_die.py": "import os\nos._exit(3)\ndef test_x(): pass\n",
        "t/test_hang.py": "import time\ntime.sleep(60)\ndef test_x(): pass\n",
        "t/test_skip.py": "import pytest\npytest.skip('no', allow_module_level=True)\ndef test_x(): pass\n",
        "u/conftest.py": "raise RuntimeError('broken conftest')\n",
        "u/test_c.py": "def test_x(): pass\n",
    }
    ids = [f"t/test_{n}.py::test_x" for n in ("ok", "imp", "syn", "die", "hang", "skip", "gone")]
    ids += ["t/test_ok.py::test_gone", "./t/test_ok.py::TestC", "u/test_c.py::test_x"]
    root = write(tmp_path / "r", files)
    rc, results, _ = run(root, "pytest", PYTEST, "--start-timeout", "2", *ids)
    assert rc == 1
    assert {name: entry["status"] for name, entry in results.items()} == {
        "t/test_ok.py::test_x": "passed",
        "t/test_imp.py::test_x": "error",
        "t/test_syn.py::test_x": "error",
        "t/test_die.py::test_x": "crashed",
        "t/test_hang.py::test_x": "timeout",
        "t/test_skip.py::test_x": "skipped",
        "t/test_gone.py::test_x": "not_found",
        "t/test_ok.py::test_gone": "not_found",
        "t/test_ok.py::TestC::test_m": "passed",
        "u/test_c.py::test_x": "error",
    }
    assert {results[name]["phase"] for name in ids[1:5]} == {"collect"}
    assert "nowhere_to_be_found" in results["t/test_imp.py::test_x"]["message"]
    assert "broken conftest" in results["u/test_c.py::test_x"]["message"]


def test_session_that_stops_early_is_resumed(tmp_path: Path) -> None:
    text = "import pytest\ndef test_a(): pytest.exit('enough')\ndef test_b(): pass\ndef test_c(): assert 0\n"
    text += "def test_d(): pass\n"
    rc, results, _ = run(write(tmp_path / "r", {"test_a.py": text}), "pytest", [*PYTEST, "-x"])
    assert rc == 1
    assert statuses(results) == {"test_a": "crashed", "test_b": "passed", "test_c": "failed", "test_d": "passed"}


def test_many_files_are_split_over_calls(tmp_path: Path) -> None:
    folder = "/".join(letter * 240 for letter in "abcd")
    files = {f"{folder}/test_{i:03}.py": "def test_x(): pass\n" for i in range(110)}
    root = write(tmp_path / "r", files)
    ids = tmp_path / "ids"
    ids.write_text("\n".join(f"{name}::test_x" for name in files))
    rc, results, _ = run(root, "pytest", PYTEST, "--ids-file", str(ids))
    assert rc == 0
    assert len(results) == 110


def test_repository_module_of_the_same_name_is_not_taken(tmp_path: Path) -> None:
    files = {
        "run_tests.py": "raise RuntimeError",
        "_test_hooks.py": "raise RuntimeError",
        "test_a.py": "def test_x(): pass\n",
    }
    rc, results, _ = run(write(tmp_path / "r", files), "pytest", PYTEST)
    assert (rc, statuses(results)) == (0, {"test_x": "passed"})


def test_results_file_changed_by_a_test_is_noticed(tmp_path: Path) -> None:
    text = 'def test_a(): open(\'../out.jsonl\', \'a\').write(\'{"id": "test_a.py::test_b", "status": "passed"}\\n\')\n'
    root = write(tmp_path / "r", {"test_a.py": text + "def test_b(): assert 0\n"})
    rc, _, printed = run(root, "pytest", PYTEST)
    assert rc == 2
    assert "not to be trusted" in printed


def test_plain_plugin(tmp_path: Path) -> None:
    root = write(tmp_path / "r", {"test_a.py": "def test_a(): pass\ndef test_b(): assert 0\n"})
    env = {**os.environ, "UCHIDE_RUN_TESTS_OUT": "../plain.jsonl", "PYTHONPATH": str(Path(tool("run_tests")).parent)}
    done = subprocess.run([*PYTEST, "-p", "run_tests"], cwd=root, env=env, capture_output=True, timeout=60)
    assert done.returncode == 1
    lines = [json.loads(line) for line in (tmp_path / "plain.jsonl").read_text().splitlines()]
    assert [(line["id"], line["status"]) for line in lines] == [
        ("test_a.py::test_a", "passed"),
        ("test_a.py::test_b", "failed"),
    ]


UNITTEST = """
import os, signal, time, unittest
class A(unittest.TestCase):
    def test_ok(self):
        "A docstring must not become the id."
    def test_fail(self): self.assertEqual(1, 2)
    def test_err(self): 1 / 0
    def test_skip(self): self.skipTest("x")
    @unittest.expectedFailure
    def test_xfail(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_hang(self): time.sleep(60)
    def test_exit(self): os._exit(0)
    def test_nested(self):
        class Inner(unittest.TestCase):
            def test_inner(self): self.fail()
        result = unittest.TestResult()
        Inner("test_inner").run(result)
        self.assertEqual(len(result.failures), 1)
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): 1 / 0
    def test_b(self): pass
class C(unittest.TestCase):
    @classmethod
    def tearDownClass(cls): 1 / 0
    def test_c1(self): pass
    def test_c2(self): pass
class D(unittest.TestCase):
    def setUp(self): 1 / 0
    def test_d(self): pass
class E(unittest.TestCase):
    @classmethod
    def setUpClass(cls): os._exit(5)
    def test_e1(self): pass
class F(unittest.TestCase):
    def test_f(self): pass
"""


@pytest.mark.parametrize("python", interpreters())
def test_unittest_statuses(tmp_path: Path, python: str) -> None:
    files = {
        "pk/__init__.py": "",
        "pk/test_u.py": UNITTEST,
        "pk/test_syn.py": "x = = 1\n",
        "pk/test_imp.py": "import nowhere_at_all\n",
    }
    root = write(tmp_path / "r", files)
    asked = ["pk/test_u.py", "pk.test_syn.A.test_x", "pk.test_imp.A.test_x", "pk.test_u.A.gone", "pk.gone.A.x"]
    rc, results, _ = run(root, "unittest", [python, "-m", "unittest"], "--per-test-timeout", "2", *asked)
    assert rc == 1
    assert {name.replace("pk.test_u.", ""): (entry["status"], entry["phase"]) for name, entry in results.items()} == {
        "A.test_ok": ("passed", "call"),
        "A.test_fail": ("failed", "call"),
        "A.test_err": ("error", "call"),
        "A.test_skip": ("skipped", "call"),
        "A.test_xfail": ("xfailed", "call"),
        "A.test_unexpected": ("failed", "call"),
        "A.test_sub": ("failed", "call"),
        "A.test_hang": ("timeout", "call"),
        "A.test_exit": ("crashed", "call"),
        "A.test_nested": ("passed", "call"),
        "B.test_b": ("error", "setup"),
        "C.test_c1": ("passed", "call"),
        "C.test_c2": ("error", "teardown"),
        "D.test_d": ("error", "setup"),
        "E.test_e1": ("crashed", "setup"),
        "F.test_f": ("passed", "call"),
        "pk.test_syn.A.test_x": ("error", "collect"),
        "pk.test_imp.A.test_x": ("error", "collect"),
        "A.gone": ("not_found", "collect"),
        "pk.gone.A.x": ("not_found", "collect"),
    }


RUNTESTS = """
import argparse, sys, unittest
parser = argparse.ArgumentParser()
parser.add_argument("--parallel"); parser.add_argument("labels", nargs="*")
options = parser.parse_args()
assert options.parallel == "1" and __name__ == "__main__"
suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(label) for label in options.labels)
if __name__ == "__main__":
    sys.exit(bool(unittest.TextTestRunner().run(suite).failures))
"""


@pytest.mark.parametrize("python", interpreters())
def test_django_style_runner(tmp_path: Path, python: str) -> None:
    files = {"tests/runtests.py": RUNTESTS, "tests/basic/__init__.py": "", "tests/basic/tests.py": UNITTEST}
    root = write(tmp_path / "r", files)
    argv = [python, "tests/runtests.py"]
    asked = [
        "basic.tests.A.test_ok",
        "basic.tests.A.test_fail",
        "basic.tests.A.nope",
        "basic.nope.A.x",
        "tests/basic/tests.py::F",
    ]
    rc, results, printed = run(root, "django", argv, *asked)
    assert rc == 1, printed
    assert {name: entry["status"] for name, entry in results.items()} == {
        "basic.tests.A.test_ok": "passed",
        "basic.tests.A.test_fail": "failed",
        "basic.tests.F.test_f": "passed",
        "basic.tests.A.nope": "not_found",
        "basic.nope.A.x": "not_found",
    }
    rc, listed, _ = run(root, "django", argv, "--collect", "basic.tests.C")
    assert (rc, list(listed)) == (0, ["basic.tests.C.test_c1", "basic.tests.C.test_c2"])


@pytest.mark.parametrize(
    ("runner", "args", "says"),
    [
        (None, [], "UCHIDE_RUNNER is not set"),
        ("{", [], "UCHIDE_RUNNER: "),
        ('{"runner": "nose", "argv": ["python", "-m", "nose"]}', [], "unknown runner"),
        ('{"runner": "pytest", "argv": ["python", "-m"]}', [], "no module or script"),
        ('{"runner": "pytest", "argv": ["/no/python", "-m", "pytest"]}', [], "could not start '/no/python'"),
        (json.dumps({"runner": "pytest", "argv": PYTEST}), ["--ids-file", "gone"], "gone"),
        (json.dumps({"runner": "pytest", "argv": PYTEST}), ["--out", "no/folder/x"], "no/folder/x"),
        (json.dumps({"runner": "pytest", "argv": PYTEST}), [], "no test ran"),
    ],
)
def test_bad_use_is_told(tmp_path: Path, runner: str | None, args: list[str], says: str) -> None:
    env = {**os.environ, "UCHIDE_RUNNER": runner or ""}
    done = subprocess.run(
        [sys.executable, tool("run_tests"), *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_terminated_driver_takes_its_tests_along(tmp_path: Path) -> None:
    text = "import os, time\ndef test_x():\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    root = write(tmp_path / "r", {"test_a.py": text})
    env = {**os.environ, "UCHIDE_RUNNER": json.dumps({"runner": "pytest", "argv": PYTEST})}
    driver = subprocess.Popen([sys.executable, tool("run_tests")], cwd=root, env=env)
    deadline = time.monotonic() + 20
    while not (root / "pid").exists() or not (root / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    driver.terminate()
    assert driver.wait(timeout=20) == 143
    assert not Path("/proc", (root / "pid").read_text()).exists()


def test_every_tool_file_is_there() -> None:
    for name in TOOL_FILES:
        if name != "try_edits":
            assert all(path.is_file() for path in tool_paths(name))
