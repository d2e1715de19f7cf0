"""A toy repository and a model that plays the blueprint agent on it, by what it is shown and not by what it has said:
so it answers alike in a process that was killed and started again."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.local import LocalProvider
from support.rollouts import make_task
from uchide import agents
from uchide.actions import Call
from uchide.actions.native import tool_call
from uchide.agents import trajectory
from uchide.errors import ModelError
from uchide.protocols import ChatReply, ChatRequest, Message, SandboxProvider, Task
from uchide.records import Candidate, Runner, Usage

Say = str | Call | ChatReply
Move = Say | Callable[[ChatRequest], Say]

PAIRS = '[{"observed": "add(2, 3) gives -1", "expected": "5"}]'
REPRO = "tests/test_uchide_r01_s1001.py"
CALC = """def add(a, b):
    return a - b


def double(a):
    return add(a, 0) + a
"""
TESTS = """from calc import add, double


def test_zero():
    assert add(1, 0) == 1


def test_double():
    assert double(4) == 8
"""
UNITTESTS = """import unittest

from calc import add, double


class TestCalc(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(1, 0), 1)

    def test_double(self):
        assert double(4) == 8
"""
NEW_UNITTESTS = """import unittest


class TestIssue(unittest.TestCase):
    def test_add(self):
        from calc import add
        self.assertEqual(add(2, 3), 5)

    def test_negative(self):
        from calc import add
        assert add(-1, -2) == -3
"""
NEW_TESTS = """def test_add():
    from calc import add
    assert add(2, 3) == 5


def test_negative():
    from calc import add
    assert add(-1, -2) == -3
"""


def bash(command: str) -> Call:
    return Call("bash", {"command": command})


def note(text: str, path: str = "calc.py", line: int = 2, **more: Any) -> Call:
    return Call("note", {"path": path, "text": text, "line": line, **more})


def replace(old: str, new: str, path: str = "calc.py") -> Call:
    return Call("replace", {"path": path, "old": old, "new": new})


DEQUEUE = Call("dequeue", {})
FIX = replace("return a - b", "return a + b")
WRITE_TESTS = Call("write", {"path": REPRO, "content": NEW_TESTS})
WRITE_UNITTESTS = Call("write", {"path": REPRO, "content": NEW_UNITTESTS})
_FIRST, _, _SECOND = NEW_UNITTESTS.partition("    def test_add")
WRITE_ONE = Call("write", {"path": REPRO, "content": _FIRST + _SECOND[_SECOND.index("    def test_negative") :]})
READ_ALL: tuple[Move, ...] = (DEQUEUE, note("subtracts"), DEQUEUE, DEQUEUE, "Read.")
"""Two files are on the first reading list: calc.py and the tests."""
HAPPY: dict[str, tuple[Move, ...]] = {
    "REPRODUCE_ISSUE.1": (bash("cat calc.py"), WRITE_TESTS, "Two tests."),
    "GATHER_CONTEXT.1": READ_ALL,
    "IMPLEMENT.1": (FIX, "Plus instead of minus."),
}


PLUS, ABS = "return a + b", "return abs(a) + abs(b)"
DOUBLE, BROKEN = "return add(a, 0) + a", "return a"
DETOUR: dict[str, tuple[Move, ...]] = {
    "REPRODUCE_ISSUE.1": (WRITE_ONE, "One test."),
    "GATHER_CONTEXT.1": READ_ALL,
    "IMPLEMENT.1": (FIX, replace(DOUBLE, BROKEN), "Broke double."),
    "GATHER_CONTEXT.2": (DEQUEUE, note("double needs add", line=6), DEQUEUE, "Read again."),
    "IMPLEMENT.2": (replace(BROKEN + "\n", DOUBLE + "\n"), replace(PLUS, ABS), "Unmet."),
    "IMPLEMENT.3": (replace(ABS, PLUS), "Right."),
}
"""VERIFY goes back to GATHER_CONTEXT, then to IMPLEMENT, then on."""
DETOUR_NODES = (
    *("LOAD_TASK", "REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT", "VERIFY"),
    *("GATHER_CONTEXT", "IMPLEMENT", "VERIFY", "IMPLEMENT", "VERIFY", "END"),
)


@dataclass
class Player:
    """Moves by `NODE.visit`: the n-th reply of a conversation is the n-th move, counted by what the request holds."""

    moves: Mapping[str, Iterable[Move]]
    name: str = "player"
    tools: tuple[str, ...] = ()
    tokens: int | None = None
    requests: list[ChatRequest] = field(default_factory=list)
    write: Callable[[Call], str] | None = None
    """How a text format spells a call."""
    discrepancies: Move = PAIRS

    async def complete(self, request: ChatRequest) -> ChatReply:
        kept = ChatRequest(**{**vars(request), "messages": list(request.messages)})
        self.requests.append(kept)
        say: Move
        if request.role == "discrepancies":
            say = self.discrepancies
        elif request.role == "summary":
            say = "SUMMARY of what was done"
        else:
            say = self._move(request)
        if callable(say):
            say = say(request)
        if isinstance(say, ChatReply):
            return say
        usage = Usage(calls=1, prompt_tokens=100, completion_tokens=10)
        if isinstance(say, Call) and self.write:
            return ChatReply(self.write(say), usage)
        if isinstance(say, Call):
            return ChatReply("", usage, "tool_calls", tool_calls=(tool_call(say, f"c{len(request.messages)}"),))
        return ChatReply(say, usage)

    def _move(self, request: ChatRequest) -> Move:
        visit = header(request)["visit"]
        moves = list(self.moves.get(f"{request.place}.{visit}", ()))
        number = sum(message.role == "assistant" for message in request.messages)
        if number >= len(moves):
            raise ModelError(f"the script of {request.place}.{visit} is over")
        return moves[number]

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return self.tokens

    async def aclose(self) -> None:
        pass

    def of(self, place: str, role: str = "agent") -> list[ChatRequest]:
        """The requests of a node."""
        return [request for request in self.requests if (request.place, request.role) == (place, role)]


def header(request: ChatRequest) -> dict[str, Any]:
    """The machine-readable first line of the system prompt."""
    name, _, data = request.messages[0].content.partition("\n")[0].partition(" ")
    assert name == "UCHIDE-HEADER"
    found: dict[str, Any] = json.loads(data)
    return found


def make_blueprint_task(folder: Path, **more: Any) -> Task:
    """`calc.py` with a wrong `add`, and a function whose tests pass because of it."""
    task = make_task(folder)
    (task.tree / "calc.py").write_text(CALC)
    (task.tree / "tests/test_calc.py").write_text(TESTS)
    # The plugins of our own environment take a second to load, in each of the agent's many runs.
    environment = task.instance.environment.model_copy(update={"env": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}})
    instance = task.instance.model_copy(update={"environment": environment})
    return Task(**{**vars(task), "instance": instance, **more})


def make_unittest_task(folder: Path, **more: Any) -> Task:
    """The same repository tested by unittest, which starts in a fraction of the time."""
    task = make_blueprint_task(folder)
    (task.tree / ".gitignore").write_text("*.log\n")
    (task.tree / "tests/__init__.py").write_text("")
    (task.tree / "tests/test_calc.py").write_text(UNITTESTS)
    runner = Runner(kind="unittest", argv=("python", "-m", "unittest"))
    environment = task.instance.environment.model_copy(update={"runner": runner})
    instance = task.instance.model_copy(update={"environment": environment})
    return Task(**{**vars(task), "instance": instance, **more})


async def play(
    folder: Path,
    moves: Mapping[str, Iterable[Move]] = HAPPY,
    options: dict[str, Any] | None = None,
    provider: SandboxProvider | None = None,
    task: Task | None = None,
    model: Player | None = None,
) -> tuple[Candidate, Player, list[trajectory.TrajectoryRecord]]:
    """A rollout of the blueprint agent: candidate, model, trajectory."""
    task, model = task or make_blueprint_task(folder), model or Player(moves)
    agent = agents.create({"name": "blueprint", **(options or {})})
    candidate = await agent.rollout(task, model, provider or LocalProvider())
    return candidate, model, list(trajectory.read(task.trajectory))


def last_words(request: ChatRequest) -> str:
    """The text that a request ends with."""
    messages: list[Message] = list(request.messages)
    return messages[-1].content
