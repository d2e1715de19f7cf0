"""Rows of release-pair datasets: two releases of a package whose tests tell them apart."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from uchide.datasets.files import InstanceId, problems
from uchide.datasets.jsonl import lines, read_bytes
from uchide.errors import DatasetError
from uchide.records import Runner
from uchide.records.base import Record

Text = Annotated[str, Field(min_length=1)]


def _stays_inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise ValueError("has to be a path inside the work tree")
    return path


RelativePath = Annotated[str, AfterValidator(_stays_inside)]
Pin = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
WITH_VALUE = frozenset({"-p", "-c", "--deselect", "--settings", "-k", "-m"})
OF_THE_HARNESS = ("--junitxml", "--settings=", "--parallel", "--noinput")
"""Report options and, for Django, the ones that the test driver gives itself."""


class ReleaseRow(Record):
    """One case. What concerns measuring (seconds, counts, notes) is kept and not used."""

    id: InstanceId
    package: Text
    before: Text
    after: Text
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]
    python_requires: str | None
    test_deps: tuple[Pin, ...]
    install_self: bool
    pythonpath: tuple[RelativePath, ...]
    env: dict[str, str]
    test_command: tuple[Text, ...] = Field(min_length=3)
    runner: Literal["pytest", "django"]
    only_source_files: tuple[RelativePath, ...] | None
    only_test_files: tuple[RelativePath, ...] | None
    test_files: tuple[RelativePath, ...] = Field(min_length=1)
    source_files: tuple[RelativePath, ...] = Field(min_length=1)
    diff_added: int
    diff_removed: int
    test_added: int
    fail_to_pass: tuple[Text, ...] = Field(min_length=1)
    fail_to_pass_junit: tuple[Text, ...]
    pass_to_pass_sha256: Sha256
    n_fail_both: int
    unstable_ids: tuple[str, ...]
    n_pass_to_pass: int
    before_missing: int
    seconds: float
    cpu_seconds: float
    deterministic: bool
    runs_after: int
    difficulty: int
    fault: Text
    problem_statement: Text
    snippet: str | None
    snippet_before_output: str | None
    snippet_after_output: str | None
    notes: str

    @property
    def test_runner(self) -> Runner:
        """The command without test paths and report options."""
        if self.runner == "django":
            return Runner(kind="django", argv=self.test_command[:2])
        return Runner(kind="pytest", argv=(*self.test_command[:3], *_split(self.test_command[3:])[0]))

    @property
    def test_paths(self) -> tuple[str, ...]:
        """The test files, folders or labels of the command."""
        start = 2 if self.runner == "django" else 3
        return _split(self.test_command[start:])[1]


def _split(arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Options (with their values) that stay, and paths."""
    options: list[str] = []
    paths: list[str] = []
    waiting = iter(arguments)
    for word in waiting:
        if word in WITH_VALUE:
            options += [word, next(waiting)]
        elif word.startswith(OF_THE_HARNESS):
            continue
        else:
            (options if word.startswith("-") else paths).append(word)
    return tuple(options), tuple(paths)


def read_rows(path: Path) -> dict[str, ReleaseRow]:
    """Rows of a JSON-lines file by id. Raises DatasetError naming file, line and field."""
    rows: dict[str, ReleaseRow] = {}
    seen: dict[str, int] = {}
    for number, line in lines(path):
        try:
            row = ReleaseRow.model_validate_json(line)
        except ValidationError as error:
            raise DatasetError(f"{path}, line {number}: {problems(error)}") from error
        if row.id in rows:
            raise DatasetError(f"{path}: instance {row.id!r} stands on lines {seen[row.id]} and {number}")
        rows[row.id], seen[row.id] = row, number
    if not rows:
        raise DatasetError(f"{path} holds no rows")
    return rows


def read_sdists(path: Path) -> dict[str, str]:
    """SHA-256 of the sdist of each release, by `package==version`."""
    try:
        return TypeAdapter(dict[Pin, Sha256]).validate_python(json.loads(read_bytes(path)))
    except ValidationError as error:
        raise DatasetError(f"{path}: {problems(error)}") from error
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from error
