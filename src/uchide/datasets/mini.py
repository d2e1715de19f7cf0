"""The bundled benchmark `mini`: small repositories of our own with planted bugs. Needs no network.

repos/<repo>/                  the correct repository with its visible tests
instances/<id>/instance.yaml   repo, split and the issue
               bug.patch       correct -> buggy; reversed, it is the gold patch
               hidden/         tests of the fix, laid over the tree by content
               tests.json      fail_to_pass and pass_to_pass, written by refresh.py and checked by the tests
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from uchide.datasets import trees
from uchide.datasets.base import Split, Workshop, unknown
from uchide.datasets.copied import copied_environment
from uchide.datasets.files import content, is_instance_id, problems
from uchide.datasets.git import git
from uchide.errors import DatasetError
from uchide.protocols import Progress
from uchide.records import Environment, HiddenInstance, Issue, PublicInstance, Runner, digest
from uchide.records.base import Record

RUNNER = Runner(
    kind="pytest",
    argv=("python", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-c", "/dev/null", "--rootdir=."),
)
Text = Annotated[str, Field(min_length=1)]


class MiniRow(Record):
    """`instance.yaml`. `fault` is a note for maintainers and reaches no agent."""

    repo: Text
    split: Split
    fault: Text
    problem_statement: Text
    snippet: str | None = None
    observed: str | None = None
    expected: str | None = None


class TestLists(Record):
    """`tests.json`."""

    __test__ = False

    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...] = Field(min_length=1)


class MiniDataset:
    """Instances of a folder laid out as above, in the order of their names."""

    def __init__(self, folder: Path, name: str = "mini") -> None:
        self.name = name
        self.folder = folder
        self._rows = _read_rows(folder)
        self.ids = tuple(self._rows)
        self.digest = digest([trees.content_digest(folder / part) for part in ("repos", "instances")])

    def row(self, instance_id: str) -> MiniRow:
        if instance_id not in self._rows:
            raise unknown(self.name, instance_id, self.ids)
        return self._rows[instance_id]

    def split(self, instance_id: str) -> Split:
        return self.row(instance_id).split

    def repo(self, instance_id: str) -> str:
        return self.row(instance_id).repo

    def issue(self, instance_id: str) -> Issue:
        row = self.row(instance_id)
        return Issue(
            instance_id=instance_id,
            repo=row.repo,
            problem_statement=row.problem_statement,
            snippet=row.snippet,
            observed=row.observed,
            expected=row.expected,
        )

    def test_lists(self, instance_id: str) -> TestLists:
        path = self.folder / "instances" / instance_id / "tests.json"
        try:
            return TestLists.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise DatasetError(f"{path}: {error}", hint="datasets/mini/refresh.py writes it") from error

    def lay_base(self, instance_id: str, folder: Path) -> None:
        """Write the buggy work tree into the new folder `folder`."""
        trees.copy(self.folder / "repos" / self.row(instance_id).repo, folder)
        git(folder, "apply", "--whitespace=nowarn", stdin=self._bug(instance_id))

    def gold_patch(self, instance_id: str, base: Path) -> bytes:
        """The fix as git writes it; `base` is a repository holding the buggy tree, which ends up fixed."""
        git(base, "add", "--all", "--force", ".")
        git(base, "apply", "--reverse", "--whitespace=nowarn", stdin=self._bug(instance_id))
        return git(base, "diff", "--no-color", "--no-ext-diff", "--no-renames", "--binary", "--full-index")

    def hidden_folder(self, instance_id: str) -> Path:
        return self.folder / "instances" / instance_id / "hidden"

    async def prepare_public(
        self, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Progress
    ) -> PublicInstance:
        """Base tree and environment. `workshop` is not needed: all comes from the running Python."""
        key, version = await copied_environment(("pytest",), progress)
        with trees.scratch() as folder:
            self.lay_base(instance_id, folder / "base")
            tree = trees.pack(folder / "base", trees_dir)
        return PublicInstance(
            issue=self.issue(instance_id),
            environment=Environment(key=key, python=version, runner=RUNNER, pythonpath=("src",)),
            tree=tree,
            split=self.split(instance_id),
        )

    async def prepare_hidden(
        self, instance_id: str, public: PublicInstance, tree: Path, workshop: Workshop, progress: Progress
    ) -> HiddenInstance:
        """The gold patch, made against the base tree, and the recorded test lists."""
        lists = self.test_lists(instance_id)
        with trees.scratch() as folder:
            trees.unpack(tree, folder / "base")
            patch = self.gold_patch(instance_id, folder / "base")
        hidden = self.hidden_folder(instance_id)
        files = tuple(content(path, path.relative_to(hidden)) for path in trees.entries(hidden) if path.is_file())
        return HiddenInstance(
            instance_id=instance_id,
            gold_patch=patch.decode(),
            test_files=files,
            test_paths=("tests",),
            fail_to_pass=lists.fail_to_pass,
            pass_to_pass=lists.pass_to_pass,
        )

    def _bug(self, instance_id: str) -> bytes:
        return (self.folder / "instances" / instance_id / "bug.patch").read_bytes()


def _read_rows(folder: Path) -> Mapping[str, MiniRow]:
    paths = sorted((folder / "instances").glob("*/instance.yaml"))
    if not paths:
        raise DatasetError(f"{folder} holds no instances", hint="expected instances/<id>/instance.yaml in it")
    rows = {path.parent.name: _read_row(path) for path in paths}
    for instance_id, row in rows.items():
        if not is_instance_id(instance_id):
            raise DatasetError(
                f"{folder}/instances: {instance_id!r} is no name for an instance",
                hint="letters, digits, dots, underscores and hyphens, at most 200, the first a letter or a digit",
            )
        for part in (folder / "repos" / row.repo, folder / "instances" / instance_id / "bug.patch"):
            if not part.exists():
                raise DatasetError(f"instance {instance_id}: {part} is missing")
    return rows


def _read_row(path: Path) -> MiniRow:
    try:
        return MiniRow.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: {error}") from error
    except ValidationError as error:
        raise DatasetError(f"{path}: {problems(error)}") from error


def write_test_lists(dataset: MiniDataset, instance_id: str, lists: TestLists) -> None:
    """Write `tests.json`; for refresh.py."""
    path = dataset.folder / "instances" / instance_id / "tests.json"
    path.write_text(json.dumps(lists.model_dump(mode="json"), indent=1, ensure_ascii=True) + "\n")
