"""The state of a blueprint rollout: everything that one node leaves for the next, as frozen values.

It is saved after every node and holds no secret of the dataset: the hidden fail_to_pass tests have no field here.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from uchide.records import Record, TestStatus

FIRST = "LOAD_TASK"
PASSING: frozenset[TestStatus] = frozenset({"passed", "xfailed"})


class Discrepancy(Record):
    """What the issue says happens, and what should happen instead."""

    observed: str
    expected: str


class TodoTest(Record):
    """A test that the repair has to make, or to keep, passing, and how it ended last."""

    id: str
    kind: Literal["repro", "regression"]
    status: TestStatus
    phase: str = ""
    traceback: str = ""

    @property
    def passes(self) -> bool:
        return self.status in PASSING


class Note(Record):
    """Something learned about a file; `line` 0 stands for the file as a whole."""

    path: str
    line: int = 0
    text: str
    relevant: bool = True


class ContextFile(Record):
    """The notes on one file, by line."""

    path: str
    why: str
    notes: tuple[Note, ...] = ()


class ContextBundle(Record):
    """What IMPLEMENT is told about the code around the fault."""

    files: tuple[ContextFile, ...] = ()


class GatherQueue(Record):
    """The reading list of GATHER_CONTEXT. `lines` are those that tracebacks name, `why` the reason for each file."""

    queue: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    current: str | None = None
    lines: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    why: dict[str, str] = Field(default_factory=dict)


class Attempt(Record):
    """One IMPLEMENT with the VERIFY that judged it."""

    number: int
    passing: int
    total: int
    unmet: tuple[str, ...] = ()
    """Reproduction tests that still fail."""
    regressed: tuple[str, ...] = ()
    """Regression tests that broke."""


class BestAttempt(Record):
    """The attempt with most tests passing, and its tree (see `uchide.agents.checkpoint`), base64."""

    attempt: Attempt
    tree: str


class AgentState(Record):
    """See the module. `update` gives the next state; nothing is changed in place."""

    schema_version: Literal[1] = 1
    current_node: str = FIRST
    """Empty after END."""
    visits: dict[str, int] = Field(default_factory=dict)
    task_text: str = ""
    """The issue as every agent sees it."""

    discrepancies: tuple[Discrepancy, ...] = ()
    repro_files: tuple[str, ...] = ()
    repro_tests: tuple[str, ...] = ()
    """Tests written for the issue that fail on the base tree."""
    repro_dropped: tuple[str, ...] = ()
    """Tests written for the issue that fail for no reason of it: they pass, or cannot be run."""

    regression_tests: tuple[str, ...] | None = None
    """Tests that pass on the base tree; None before they were measured."""
    regression_source: Literal["base_tree", "dataset"] = "base_tree"
    regression_left_out: int = 0
    """Candidates for it that do not pass on the base tree."""
    todo_list: tuple[TodoTest, ...] = ()

    queue: GatherQueue = GatherQueue()
    context: ContextBundle = ContextBundle()

    attempts: tuple[Attempt, ...] = ()
    best: BestAttempt | None = None
    kept_attempt: int = 0
    """Number of the attempt whose tree is the candidate; 0 while it is open."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "AgentState":
        """From `to_dict`. Raises pydantic.ValidationError."""
        return cls.model_validate(data)

    def update(self, fields: Mapping[str, Any]) -> "AgentState":
        """The state with these fields replaced; an unknown field or a value of a wrong type is a ValidationError."""
        return AgentState.model_validate({**dict(self), **fields})

    @property
    def unmet(self) -> tuple[TodoTest, ...]:
        return tuple(test for test in self.todo_list if test.kind == "repro" and not test.passes)

    @property
    def regressions(self) -> tuple[TodoTest, ...]:
        return tuple(test for test in self.todo_list if test.kind == "regression" and not test.passes)
