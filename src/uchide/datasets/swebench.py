"""SWE-bench rows, in the dialects of release 4 and 5 of its harness: read and validated whole.

Files end in `.json` (a list), `.jsonl` or `.parquet`. Release 4 writes FAIL_TO_PASS and PASS_TO_PASS as JSON strings,
release 5 as lists, and adds how a row is graded. Running these rows needs their container images, which no sandbox here
provides yet: they can be listed and checked, not prepared.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from uchide.datasets.base import Split, Workshop, unknown
from uchide.datasets.files import InstanceId, problems
from uchide.datasets.jsonl import lines, read_bytes, text
from uchide.errors import DatasetError
from uchide.protocols import Progress
from uchide.records import HiddenInstance, Issue, PublicInstance, digest
from uchide.records.base import Record


def _test_list(value: Any) -> Any:  # noqa: ANN401 (whatever the file holds)
    """A list as it is, a JSON string decoded."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("has to be a list, or a string holding a JSON list") from error


Text = Annotated[str, Field(min_length=1)]
TestList = Annotated[list[Text], BeforeValidator(_test_list)]


class SweBenchRow(Record):
    """One row of either dialect."""

    instance_id: InstanceId
    repo: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+$")]
    base_commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    version: Text
    problem_statement: Text
    patch: Text
    test_patch: Text
    FAIL_TO_PASS: TestList = Field(min_length=1)
    PASS_TO_PASS: TestList
    hints_text: str | None = None
    created_at: str | int | float | None = None
    environment_setup_commit: str | None = None
    difficulty: str | None = None
    image: str | None = None
    log_parser: str | None = None
    eval_type: Literal["pass_and_fail", "fail_only"] | None = None
    eval_script: str | None = None
    image_assets: Any = None

    @property
    def dialect(self) -> Literal[4, 5]:
        """5 where the row says how it is graded, else 4."""
        return 4 if self.image is None else 5

    @model_validator(mode="after")
    def _graded_wholly_or_not_at_all(self) -> Self:
        graded = {name: getattr(self, name) for name in ("image", "log_parser", "eval_type", "eval_script")}
        missing = [name for name, value in graded.items() if value is None]
        if missing and len(missing) < len(graded):
            raise ValueError(f"a row that says how it is graded needs {', '.join(missing)} too")
        return self


class SweBench:
    """The rows of one file, in file order. All are held out."""

    def __init__(self, path: Path, name: str = "swebench") -> None:
        self.name = name
        self._rows = _collect(path)
        self.ids = tuple(self._rows)
        self.digest = digest([row.model_dump(mode="json") for row in self._rows.values()])

    def row(self, instance_id: str) -> SweBenchRow:
        if instance_id not in self._rows:
            raise unknown(self.name, instance_id, self.ids)
        return self._rows[instance_id]

    def split(self, instance_id: str) -> Split:
        self.row(instance_id)
        return "heldout"

    def repo(self, instance_id: str) -> str:
        return self.row(instance_id).repo

    def issue(self, instance_id: str) -> Issue:
        row = self.row(instance_id)
        return Issue(instance_id=row.instance_id, repo=row.repo, problem_statement=row.problem_statement)

    async def prepare_public(
        self, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Progress
    ) -> PublicInstance:
        raise self._cannot_run(instance_id)

    async def prepare_hidden(
        self, instance_id: str, public: PublicInstance, tree: Path, workshop: Workshop, progress: Progress
    ) -> HiddenInstance:
        raise self._cannot_run(instance_id)

    def _cannot_run(self, instance_id: str) -> DatasetError:
        return DatasetError(
            f"{self.row(instance_id).instance_id}: SWE-bench rows can be checked and listed but not run",
            hint="they need container images; use mini or release-bugs",
        )


def _collect(path: Path) -> dict[str, SweBenchRow]:
    rows: dict[str, SweBenchRow] = {}
    places: dict[str, str] = {}
    for place, data in _read(path):
        try:
            row = SweBenchRow.model_validate(data)
        except ValidationError as error:
            raise DatasetError(f"{path}, {place}: {problems(error)}") from error
        if row.instance_id in rows:
            raise DatasetError(f"{path}: instance {row.instance_id} is on {places[row.instance_id]} and {place}")
        rows[row.instance_id], places[row.instance_id] = row, place
    if not rows:
        raise DatasetError(f"{path} holds no rows")
    return rows


def _read(path: Path) -> Iterator[tuple[str, Any]]:
    """`(place, row as read)` of a dataset file, by its ending."""
    readers = {".json": _json, ".jsonl": _jsonl, ".parquet": _parquet}
    if path.suffix not in readers:
        raise DatasetError(f"{path}: unknown kind of file {path.suffix!r}", hint=f"known: {', '.join(readers)}")
    return readers[path.suffix](path)


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in lines(path):
        yield f"line {number}", json.loads(line)


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        data = json.loads(text(path))
    except json.JSONDecodeError as error:
        raise DatasetError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(data, list):
        raise DatasetError(f"{path} has to hold a list of rows", hint="one row per line is a .jsonl file")
    for number, row in enumerate(data, start=1):
        yield f"row {number}", row


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(read_bytes(path)))
    except pyarrow.ArrowException as error:
        raise DatasetError(f"{path} is not a Parquet file: {error}") from error
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"row {number}", row
