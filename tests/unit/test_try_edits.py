"""The search tool end to end, as a program, on small repositories made here."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "src" / "uchide" / "tools"

MODULE = '''
"""Prices."""


def label(amount, digits=None):
    """Text of an amount, rounded to digits if they are given."""
    text = str(amount)
    if digits:
        text = str(round(amount, digits))
    return text


def plain(amount):
    return label(amount)
'''
TESTS = """
import pytest
import prices


@pytest.mark.parametrize("amount", range(12))
def test_plain(amount):
    assert prices.plain(amount + 0.25) == str(amount + 0.25)


def test_one_digit():
    assert prices.label(1.26, 1) == "1.3"
"""
SNIPPET = "import prices\nprint(prices.label(7.6, -0))\nprint(prices.label(7.26, 1))\n"
ISSUE = {
    "schema": 1,
    "problem_statement": "`label` with zero digits keeps all decimals. Zero `digits` should round to a whole number.",
    "snippet": SNIPPET,
    "observed": "7.6\n7.3\n",
    "expected": "8.0\n7.3\n",
}


class Place:
    """A repository, its share, and the tool."""

    def __init__(self, folder: Path, module: str, tests: str, issue: dict) -> None:
        self.root = folder / "repo"
        self.share = folder / "share"
        for path in (self.root / "tests", self.share):
            path.mkdir(parents=True)
        (self.root / "prices.py").write_text(module)
        (self.root / "tests" / "test_prices.py").write_text(tests)
        (self.share / "issue.json").write_text(json.dumps(issue))

    def call(self, command: str, seed: int, *more: str) -> subprocess.CompletedProcess:
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", "--rootdir=."]
        runner = {"runner": "pytest", "argv": argv}
        env = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "UCHIDE_TOOLS": str(TOOLS),
            "UCHIDE_RUNNER": json.dumps(runner),
        }
        env.update({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
        argv = [sys.executable, str(TOOLS / "try_edits"), command, "--issue", str(self.share / "issue.json")]
        argv += ["--repro", str(self.share / "repro.py"), "--seed", str(seed), *more]
        return subprocess.run(argv, cwd=self.root, env=env, capture_output=True, text=True, timeout=120, check=False)

    def reproduce(self) -> subprocess.CompletedProcess:
        expected = str(self.share / "expected.txt")
        return self.call("reproduce", 0, "--expected-out", expected, "--out", str(self.share / "repro.json"))

    def search(self, seed: int, mutants: int, tests: list[str]) -> tuple[dict, subprocess.CompletedProcess]:
        (self.share / "ids.txt").write_text("".join(name + "\n" for name in tests))
        files = ["--expected", str(self.share / "expected.txt"), "--tests", str(self.share / "ids.txt")]
        out = ["--mutants", str(mutants), "--out", str(self.share / "out.json")]
        done = self.call("search", seed, *files, *out)
        assert done.returncode in (0, 1), done.stderr
        return json.loads((self.share / "out.json").read_text()), done

    def files(self) -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(self.root.rglob("*")) if p.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, MODULE, TESTS, ISSUE)


def apply(place: Place, edits: list[dict]) -> None:
    request = json.dumps({"edits": edits})
    argv = [sys.executable, str(TOOLS / "line_edit.py")]
    subprocess.run(argv, cwd=place.root, input=request, text=True, check=True, capture_output=True)


def test_a_survivor_repairs_the_tree_and_the_search_leaves_it_untouched(place: Place) -> None:
    assert place.reproduce().returncode == 0
    before = place.files()
    report, done = place.search(1, 40, ["tests/test_prices.py::test_one_digit", "tests/test_prices.py::test_plain[3]"])
    assert done.returncode == 0
    assert place.files() == before
    apply(place, report["survivors"][0]["edits"])
    env = {**os.environ, "PYTHONPATH": str(place.root)}
    argv = [sys.executable, str(place.share / "repro.py")]
    ran = subprocess.run(argv, cwd=place.root, capture_output=True, text=True, env=env, check=True)
    assert ran.stdout == ISSUE["expected"]


def test_the_same_seed_gives_the_same_report(place: Place) -> None:
    place.reproduce()
    assert place.search(5, 20, [])[0] == place.search(5, 20, [])[0]


def test_seeds_try_in_different_orders(place: Place) -> None:
    place.reproduce()
    labels = {tuple(row["label"] for row in place.search(seed, 20, [])[0]["survivors"]) for seed in (1, 2)}
    assert len(labels) > 1


def test_candidates_that_break_a_chosen_test_are_rejected_with_its_id(tmp_path: Path) -> None:
    tests = TESTS + "\n\ndef test_zero_keeps():\n    assert prices.label(7.6, 0) == '7.6'\n"
    place = Place(tmp_path, MODULE, tests, ISSUE)
    place.reproduce()
    report, done = place.search(1, 25, ["tests/test_prices.py::test_zero_keeps"])
    assert done.returncode == 1
    assert report["survivors"] == []
    assert ["tests/test_prices.py::test_zero_keeps"] in [row["failed"] for row in report["rejected"]]


def test_hanging_candidates_are_cut_off(tmp_path: Path) -> None:
    module = textwrap.dedent(
        """
        def label(amount, digits=None):
            steps = 0
            while steps < 3:
                steps += 1
            return amount + steps
        """
    )
    issue = {
        **ISSUE,
        "snippet": "import prices\nprint(prices.label(1))\n",
        "observed": "4\n",
        "expected": "unreachable\n",
    }
    place = Place(tmp_path, module, TESTS, issue)
    place.reproduce()
    report, done = place.search(1, 30, [])
    assert done.returncode == 1
    assert report["tried"] >= 20


def test_an_issue_that_does_not_reproduce_is_said_so(tmp_path: Path) -> None:
    place = Place(tmp_path, MODULE, TESTS, {**ISSUE, "expected": ISSUE["observed"]})
    done = place.reproduce()
    assert done.returncode == 1
    assert "does not reproduce" in done.stdout


def test_an_issue_without_code_is_given_up(tmp_path: Path) -> None:
    place = Place(tmp_path, MODULE, TESTS, {**ISSUE, "snippet": None})
    done = place.reproduce()
    assert done.returncode == 1
    assert "no code" in done.stdout


def test_choose_takes_at_least_ten_and_depends_on_the_seed_only(place: Place) -> None:
    place.reproduce()
    out = place.share / "chosen.txt"
    chosen = []
    for seed in (1, 1, 2, 3):
        assert place.call("choose", seed, "--out", str(out)).returncode == 0
        chosen.append(out.read_text().splitlines())
    assert chosen[0] == chosen[1]
    assert len({tuple(ids) for ids in chosen}) > 1
    assert all(len(ids) >= 10 for ids in chosen)


def test_localise_ranks_the_tested_condition_high(place: Place) -> None:
    place.reproduce()
    done = place.call("localise", 0, "--out", str(place.share / "places.json"))
    assert done.returncode == 0
    places = json.loads((place.share / "places.json").read_text())
    assert any(row["line"] == 8 for row in places[:3])
