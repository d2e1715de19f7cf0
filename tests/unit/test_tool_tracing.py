"""line_trace.py and caller_trace.py on real commands, through settrace and (3.12 and newer) sys.monitoring."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.interpreters import interpreters, tool

SOURCE = """\
class Box:
    def __init__(self, items):
        self.items = items

    def total(self):
        n = 0
        for item in self.items:
            n += item
        return n

    def __repr__(self):
        raise SystemExit("a tracer must not call this")


def parse(text):
    out = []
    for part in text.split(","):
        try:
            out.append(int(part))
        except ValueError:
            out.append(None)
    if len(out) > 100:
        out = out[:100]
    return out


def outer(text):
    return parse(text)


def numbers(n):
    for i in range(n):
        yield i


def never(x):
    return parse(x)
"""
LINE = {text.strip(): number for number, text in enumerate(SOURCE.splitlines(), 1)}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "box.py").write_text(SOURCE)
    return root


def script(repo: Path, text: str, name: str = "main.py") -> str:
    (repo / name).write_text("import os, sys\nsys.path.insert(0, 'src')\nfrom box import *\n" + text)
    return name


def trace(repo: Path, name: str, python: str, args: list[str], command: list[str]) -> tuple[int, list[Any], Any, str]:
    """(exit code, events, totals, standard output)."""
    full = [python, tool(name), *args, "--out", "../out.jsonl", "--", *command]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(full, cwd=repo, env=env, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in (repo.parent / "out.jsonl").read_text().splitlines()]
    return done.returncode, lines[:-1], lines[-1], done.stdout


def brief(events: list[Any]) -> list[tuple[int, str, Any]]:
    return [(e["line"], e["event"], e["vars"] if e["event"] == "line" else e["value"]) for e in events]


@pytest.mark.parametrize("python", interpreters())
def test_lines_show_what_each_changed(repo: Path, python: str) -> None:
    main = script(repo, "print('out', file=sys.stdout)\nparse('1,a')\nsys.exit(7)\n")
    first, last = LINE["def parse(text):"] + 1, LINE["return out"]
    rc, events, totals, printed = trace(
        repo, "line_trace", python, ["--file", f"src/box.py:{first}-{last}"], [python, main]
    )
    assert rc == 7
    assert printed.startswith("out\n")
    assert events[0]["before"] == {"text": "'1,a'"}
    assert {key: events[0][key] for key in ("file", "event", "hit", "thread")} == {
        "file": "src/box.py",
        "event": "line",
        "hit": 1,
        "thread": 0,
    }
    told = [entry for entry in brief(events) if entry[0] not in (LINE["try:"], LINE["except ValueError:"])]
    loop, append = LINE['for part in text.split(","):'], LINE["out.append(int(part))"]
    assert told == [
        (first, "line", {"out": "[]"}),
        (loop, "line", {"part": "'1'"}),
        (append, "line", {"out": "[1]"}),
        (loop, "line", {"part": "'a'"}),
        (append, "line", {}),
        (append, "exception", told[5][2]),
        (LINE["out.append(None)"], "line", {"out": "[1, None]"}),
        (loop, "line", {}),
        (LINE["if len(out) > 100:"], "line", {}),
        (last, "line", {}),
        (last, "return", "[1, None]"),
    ]
    assert told[5][2].startswith("ValueError(")
    assert totals["never_reached"] == {"src/box.py": [LINE["out = out[:100]"]]}
    assert (totals["exit_code"], totals["truncated"]) == (7, False)
    assert printed.splitlines()[-1].startswith("total: ")


@pytest.mark.parametrize("python", interpreters())
def test_foreign_objects_are_never_asked(repo: Path, python: str) -> None:
    main = script(
        repo,
        "class Meta(type):\n    @property\n    def __name__(cls): raise SystemExit(3)\n"
        "class Odd(metaclass=Meta):\n    __slots__ = ()\n    def __getattr__(self, name): raise SystemExit(4)\n"
        "class Lazy:\n    @property\n    def __dict__(self): raise SystemExit(5)\n"
        "    __class__ = property(lambda self: sys.exit(6))\n"
        "box = Box([1, Odd(), Lazy()])\n"
        "try: box.total()\nexcept TypeError: pass\n",
    )
    rc, events, _, _ = trace(repo, "line_trace", python, ["--file", "src/box.py", "--file", main], [python, main])
    assert rc == 0
    told = [event for event in events if event["func"].endswith("total")]
    assert told[0]["before"] == {"self": "<Box items=[...+3]>"}
    assert "<Odd>" in [event["vars"].get("item") for event in told]
    assert any(event["event"] == "exception" and "TypeError" in event["value"] for event in told)


@pytest.mark.parametrize("python", interpreters())
def test_caps_and_truncation(repo: Path, python: str) -> None:
    main = script(repo, "Box(range(50)).total()\nparse('9' * 999)\nBox([2 ** 9000]).total()\n")
    args = ["--file", "src/box.py:5-9", "--hits", "2"]
    _, events, totals, _ = trace(repo, "line_trace", python, args, [python, main])
    assert [event["line"] for event in events if event["event"] == "line"].count(LINE["n += item"]) == 2
    assert not totals["truncated"]
    _, events, totals, printed = trace(repo, "line_trace", python, [*args, "--max", "4", "--show", "3"], [python, main])
    assert (len(events), totals["truncated"]) == (4, True)
    assert totals["never_reached"] == {}  # reached lines are known past the cap
    assert "TRUNCATED at --max 4" in printed.splitlines()[-1]
    assert printed.count(" | ") == 3
    _, events, _, printed = trace(repo, "line_trace", python, ["--file", "src/box.py", "--hits", "99"], [python, main])
    assert max(len(text) for event in events for text in event["vars"].values()) < 400
    _, events, _, _ = trace(repo, "line_trace", python, [*args, "--no-vars"], [python, main])
    assert [event["vars"] for event in events] == [{}] * len(events)
    assert len(events) > 5


@pytest.mark.parametrize("python", interpreters())
def test_fork_thread_subprocess_and_hard_exit(repo: Path, python: str) -> None:
    main = script(
        repo,
        "import subprocess, threading\n"
        "if not os.fork():\n    parse('fork'); os._exit(0)\n"
        "os.wait()\n"
        "t = threading.Thread(target=parse, args=('thread',)); t.start(); t.join()\n"
        # A thread of Python 3.6 that is just ending loads a library; without that file's descriptor it aborts.
        "import time; time.sleep(0.3); os.closerange(3, 64)\n"
        'code = \'import sys; sys.path[0] = "src"; import box; box.parse("sub")\'\n'
        "subprocess.check_call([sys.executable, '-c', code])\n"
        "parse('last'); os._exit(9)\n",
    )
    start = LINE["out = []"]
    rc, events, totals, printed = trace(
        repo, "line_trace", python, ["--file", f"src/box.py:{start}", "--hits", "9"], [python, main]
    )
    assert rc == 9
    told = {event["before"]["text"]: event for event in events}
    assert set(told) == {"'fork'", "'thread'", "'sub'", "'last'"}
    assert len({event["pid"] for event in events}) == 3
    assert told["'thread'"]["thread"] != told["'last'"]["thread"]
    assert "in 3 processes" in printed.splitlines()[-1]
    assert totals["exit_code"] == 9


@pytest.mark.parametrize("python", interpreters())
def test_isolated_interpreter_and_killed_command(repo: Path, python: str) -> None:
    main = script(repo, "parse('1')\nos.kill(os.getpid(), 9)\n")
    args = ["--file", f"src/box.py:{LINE['out = []']}"]
    rc, events, _, _ = trace(repo, "line_trace", python, args, [python, "-I", main])
    assert (rc, len(events)) == (128 + 9, 1)
    rc, events, _, printed = trace(repo, "line_trace", python, args, ["sh", "-c", "exit 5"])
    assert (rc, events) == (5, [])
    assert "no Python process was traced" in printed
    rc, _, _, printed = trace(repo, "line_trace", python, args, ["/no/such/program"])
    assert rc == 127
    assert "cannot run '/no/such/program'" in printed


def test_never_reached_is_explained(repo: Path) -> None:
    main = script(repo, "parse('1')\n")
    (repo / "src" / "other.py").write_text("x = 1\n\n\n# nothing\n\n\ny = 2\n")
    files = ["src/box.py", "src/other.py", "src/other.py:3-5"]
    args = [word for name in files for word in ("--file", name)]
    _, _, totals, printed = trace(repo, "line_trace", sys.executable, args, [sys.executable, main])
    assert "src/other.py: never ran" in printed
    assert "never entered: Box.__init__, Box.__repr__, Box.total, never, numbers, outer" in printed
    assert LINE["out.append(None)"] in totals["never_reached"]["src/box.py"]
    (repo / "main.py").write_text("import sys; sys.path.insert(0, 'src'); import other\n")
    _, _, _, printed = trace(repo, "line_trace", sys.executable, ["--file", "src/other.py:3-5"], [sys.executable, main])
    assert "src/other.py:3-5: no executable line there; nearest: 1, 7" in printed


def test_pytest_test_only_leaves_collection_and_fixtures_out(repo: Path) -> None:
    text = (
        "import pytest, unittest\n@pytest.fixture\ndef box(): return Box([1])\n"
        "def test_a(box): assert box.total() == 1\n"
        "class TestU(unittest.TestCase):\n"
        "    def setUp(self): self.box = Box([3])\n    def test_u(self): parse('5')\n"
    )
    name = script(repo, text, "test_box.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    rc, events, _, _ = trace(repo, "line_trace", sys.executable, ["--file", "src/box.py", "--test-only"], command)
    assert rc == 0
    assert {event["func"] for event in events} == {"Box.total", "parse"}
    _, events, _, _ = trace(repo, "line_trace", sys.executable, ["--file", "src/box.py"], command)
    assert {event["func"] for event in events} == {"<module>", "Box", "Box.__init__", "Box.total", "parse"}


@pytest.mark.parametrize("python", interpreters())
def test_unittest_test_only_leaves_set_up_out(repo: Path, python: str) -> None:
    text = (
        "import unittest\nclass TestU(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): Box([0])\n"
        "    def setUp(self): self.addCleanup(Box, [1])\n    def test_u(self): parse('5')\n"
        "    def tearDown(self): Box([1])\n"
    )
    script(repo, text, "test_box.py")
    args, command = ["--file", "src/box.py", "--test-only"], [python, "-m", "unittest", "test_box"]
    rc, events, _, _ = trace(repo, "line_trace", python, args, command)
    assert (rc, {event["func"] for event in events}) == (0, {"parse"})


@pytest.mark.parametrize("python", interpreters())
def test_program_that_replaces_the_tracer(repo: Path, python: str) -> None:
    main = script(repo, "sys.settrace(None)\nparse('1')\n")
    _, events, _, printed = trace(repo, "line_trace", python, ["--file", "src/box.py"], [python, main])
    seen = any(event["func"] == "parse" for event in events)
    assert seen != ("something replaced the tracer" in printed)  # sys.monitoring goes on


def test_real_sitecustomize_still_runs_and_the_path_is_clean(repo: Path) -> None:
    (repo / "site").mkdir()
    (repo / "site" / "sitecustomize.py").write_text("import sys; sys.marked = True\n")
    main = script(repo, "print(sys.marked, [p for p in sys.path if 'trace.' in p or 'tools' in p])\n")
    env = {**os.environ, "PYTHONPATH": str(repo / "site")}
    command = [sys.executable, tool("line_trace"), "--file", "src/box.py", "--", sys.executable, main]
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, timeout=30)
    assert done.stdout.startswith("True []\n"), done.stdout + done.stderr


@pytest.mark.parametrize("python", interpreters())
def test_callers(repo: Path, python: str) -> None:
    main = script(
        repo,
        "def test_one():\n    for _ in range(3): outer('1')\n    parse('2')\n"
        "def test_two():\n    list(map(parse, ['3']))\n    list(numbers(5))\n"
        "test_one(); test_two(); Box([]); sys.exit(4)\n",
        "test_main.py",
    )
    targets = ["src/box.py:parse", "src/box.py:Box", "src/box.py:numbers", f"src/box.py:{LINE['n += item']}"]
    args = [word for target in targets for word in ("--target", target)]
    rc, events, totals, printed = trace(repo, "caller_trace", python, args, [python, main])
    assert rc == 4
    assert (totals["total"], totals["truncated"]) == (7, False)
    parsed = [event for event in events if event["func"] == "parse"]
    assert [place[0::2] for place in parsed[0]["stack"]] == [["src/box.py", "outer"], ["test_main.py", "test_one"]]
    assert (parsed[0]["event"], parsed[0]["vars"], parsed[0]["hit"]) == ("call", {"text": "'1'"}, 1)
    assert f"3 x src/box.py:{LINE['return parse(text)']} outer" in printed
    assert "numbers: 1 calls" in printed
    assert "Box.__init__: 1 calls" in printed
    assert "Box.total: 0 calls" in printed
    assert "no function of the repository holds a call of that name" in printed
    assert printed.splitlines()[-1].startswith("total: 7 calls")


def test_never_called_names_the_functions_that_could_have(repo: Path) -> None:
    main = script(repo, "def mine(go):\n    if go: never('1')\ndef idle(): never('2')\nmine(False)\n")
    _, _, _, printed = trace(
        repo, "caller_trace", sys.executable, ["--target", "src/box.py:never"], [sys.executable, main]
    )
    assert "ran, without calling it:\n    main.py:4 mine\n" in printed
    assert "did not run:\n    main.py:6 idle\n" in printed


def test_callers_under_pytest_name_the_tests_and_cap_the_calls(repo: Path) -> None:
    text = (
        "import pytest\n@pytest.mark.parametrize('v', ['a b', '2'])\ndef test_p(v):\n    for _ in range(40): parse(v)\n"
    )
    name = script(repo, text, "test_box.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    args = ["--target", "src/box.py:parse", "--max", "50"]
    rc, events, totals, printed = trace(repo, "caller_trace", sys.executable, args, command)
    assert rc == 0
    assert (len(events), totals["truncated"]) == (50, True)
    assert "parse: 80 calls" in printed
    assert "40 x test_box.py::test_p[a b]" in printed
    assert "TRUNCATED at --max 50" in printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("line_trace", ["--file", "gone.py", "--", "true"], "no such file: gone.py"),
        ("line_trace", ["--file", "src/box.py:9-3", "--", "true"], "ends before it begins"),
        ("line_trace", ["--file", "src/box.py"], "no command"),
        ("line_trace", ["--", "true"], "--file"),
        ("caller_trace", ["--target", "src/box.py:total", "--", "true"], "there are: Box.total"),
        ("caller_trace", ["--target", "src/box.py:4", "--", "true"], "line 4 is in no function"),
        ("caller_trace", ["--target", "gone.py:f", "--", "true"], "gone.py: No such file"),
        ("caller_trace", ["--target", "parse", "--", "true"], "give PATH.py:NAME"),
        ("caller_trace", ["--target", "src/box.py:parse", "--"], "no command"),
    ],
)
def test_bad_use_is_told(repo: Path, name: str, args: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, tool(name), *args], cwd=repo, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
