"""Small tasks, and rollouts of them in the local test sandbox."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.local import LocalProvider
from support.scripted import Answer, Scripted, turn
from uchide import agents
from uchide.agents import trajectory
from uchide.protocols import SandboxProvider, Task
from uchide.records import Candidate, Environment, Issue, PublicInstance

CALC = "def add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n"


def make_task(folder: Path, name: str = "toy__calc-1") -> Task:
    """A repository of one wrong function."""
    tree = folder / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "calc.py").write_text(CALC)
    (tree / "tests/test_calc.py").write_text(TESTS)
    issue = Issue(
        instance_id=name,
        repo="toy/calc",
        problem_statement="`add(2, 3)` gives -1.",
        snippet="from calc import add\nprint(add(2, 3))",
        observed="-1",
        expected="5",
    )
    instance = PublicInstance(issue=issue, environment=Environment(key="k", python="3.11"), tree="t")
    file = folder / "trajectories/main.r01_s1001.toy__calc-1.jsonl.zst"
    return Task("main", "r01_s1001", 1001, instance, tree, folder / "env", folder / "home", file)


def done(product: str, text: str = "notes") -> str:
    """COMPLETE together with the action that makes the product."""
    return turn("COMPLETE", f"printf '%s\\n' '{text}' > /share/{product}")


FIX = "sed -i 's/a - b/a + b/' calc.py"
NEW_TEST = (
    "printf 'from calc import add\\ndef test_add():\\n    assert add(2, 3) == 5\\n' > tests/test_uchide_r01_s1001.py"
)
SUITE = (
    "echo tests/test_uchide_r01_s1001.py::test_add > /share/fail_to_pass.txt; echo x > /share/test_fail_to_pass_all.sh"
)
REGRESSION = "echo tests/test_calc.py::test_zero > /share/pass_to_pass.txt; echo run > /share/test_pass_to_pass_all.sh"

HAPPY: tuple[str, ...] = (
    turn("W0", "cat /share/issue.json"),
    turn("W8", "echo it gives -1 > /share/reproduce.md"),
    turn("COMPLETE", memo="It gives -1; see reproduce.md."),
    turn("W3", f"{NEW_TEST}; {SUITE}"),
    turn("COMPLETE", memo="One test."),
    turn("W8", "echo 'calc.py:2 subtracts' > /share/root_cause.md"),
    turn("COMPLETE", memo="calc.py:2."),
    turn("W8", REGRESSION),
    turn("COMPLETE", memo="One regression test."),
    turn("W3", FIX),
    turn("COMPLETE", memo="Plus instead of minus."),
    turn("W1", "echo all pass > /share/verify.log"),
    turn("COMPLETE", memo="Verified."),
    turn("W8", "echo fine > /share/review.md"),
    turn("COMPLETE", memo="Clean."),
    turn("W2", "echo fixed add > /share/report.md"),
    turn("COMPLETE"),
)
PHASES = (
    "ISSUE_REPRODUCE",
    "TEST_SYNTHESIZE",
    "CODE_LOCALIZE",
    "TEST_LOCALIZE",
    "CODE_FIX",
    "VERIFY_PATCH",
    "ISSUE_CLOSE",
    "FINAL_REPORT",
)


async def play(
    folder: Path,
    answers: Iterable[Answer],
    options: dict[str, Any] | None = None,
    provider: SandboxProvider | None = None,
) -> tuple[Candidate, Scripted, list[trajectory.TrajectoryRecord]]:
    """A rollout of the phases agent with a scripted model: candidate, model, trajectory."""
    task, model = make_task(folder), Scripted(answers)
    candidate = await agents.create(options or {}).rollout(task, model, provider or LocalProvider())
    return candidate, model, list(trajectory.read(task.trajectory))
