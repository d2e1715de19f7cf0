"""Instances: what an agent may see (issue, environment, tree) and, apart from it, what only graders see."""

from typing import Literal

from pydantic import Field

from uchide.records.base import Record

RunnerKind = Literal["pytest", "django", "unittest"]
Language = Literal["python"]


class Issue(Record):
    """What an agent may see of an instance; rendered identically for every agent."""

    schema_version: Literal[1] = 1
    instance_id: str
    repo: str
    language: Language = "python"
    problem_statement: str
    snippet: str | None = None
    observed: str | None = None
    expected: str | None = None


class Runner(Record):
    """How tests run in a repository: a command without test paths and without report options."""

    kind: RunnerKind = "pytest"
    argv: tuple[str, ...] = ("python", "-m", "pytest", "-p", "no:cacheprovider", "-q")


class Environment(Record):
    """A built interpreter with pinned packages, shared by all instances with the same `key`.

    `key` is the digest of everything that decides its bytes; the files lie in the user's cache under that key and
    are mounted at `/env`.
    """

    key: str
    python: str
    """The interpreter's version as built, e.g. `3.11.7`."""
    runner: Runner = Runner()
    env: dict[str, str] = Field(default_factory=dict)
    pythonpath: tuple[str, ...] = (".",)
    """Folders relative to the work tree."""


class PublicInstance(Record):
    """A prepared instance as bench.generate and tts may read it."""

    schema_version: Literal[1] = 1
    issue: Issue
    environment: Environment
    tree: str
    """Digest of the base tree; the archive is `trees/<digest>.tar.zst` of the same artifact."""
    split: Literal["train", "heldout"] = "heldout"

    @property
    def instance_id(self) -> str:
        return self.issue.instance_id


class FileContent(Record):
    """One file by content. `data` is text when the bytes are UTF-8, else base64; None means the file is removed."""

    path: str
    data: str | None
    base64: bool = False
    executable: bool = False


class HiddenInstance(Record):
    """What only the grader may read."""

    schema_version: Literal[1] = 1
    instance_id: str
    gold_patch: str
    test_files: tuple[FileContent, ...]
    """Hidden tests, laid over the patched tree by content."""
    test_paths: tuple[str, ...]
    """Arguments for the runner: the test files (or Django labels) that hold the expected ids."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


class Excluded(Record):
    """An instance that takes no part, and why."""

    instance_id: str
    reason: str
