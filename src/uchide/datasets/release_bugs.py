"""Bugs between two releases of a package: the tests of the later one fail on the earlier one's sources.

No package source is stored. The base tree is the earlier sdist; gold patch and hidden tests are made from the two when
an instance is prepared. The list of tests that have to stay green is measured, and compared with the row's digest.
"""

import hashlib
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from uchide.datasets import trees
from uchide.datasets.base import Split, Workshop, unknown
from uchide.datasets.builds import Builder, Release
from uchide.datasets.files import content
from uchide.datasets.git import git
from uchide.datasets.interpreters import Interpreter, at, find
from uchide.datasets.measure import GOLD_RUNS, compare
from uchide.datasets.release_rows import ReleaseRow, read_rows, read_sdists
from uchide.datasets.unpacking import extract
from uchide.errors import DatasetError
from uchide.protocols import Progress
from uchide.records import Environment, FileContent, HiddenInstance, Issue, PublicInstance, digest


class ReleaseBugs:
    """Instances of `release-bugs.jsonl` and `sdists.json` of a folder, in file order. All are held out."""

    def __init__(self, folder: Path, name: str = "release-bugs") -> None:
        self.name = name
        rows, sdists = folder / "release-bugs.jsonl", folder / "sdists.json"
        self._rows = read_rows(rows)
        self._sdists = read_sdists(sdists)
        for row in self._rows.values():
            for release in (row.before, row.after):
                self._release(row, release)
        self.ids = tuple(self._rows)
        self.digest = digest([rows.read_text(encoding="utf-8"), dict(self._sdists)])

    def row(self, instance_id: str) -> ReleaseRow:
        if instance_id not in self._rows:
            raise unknown(self.name, instance_id, self.ids)
        return self._rows[instance_id]

    def split(self, instance_id: str) -> Split:
        self.row(instance_id)
        return "heldout"

    def repo(self, instance_id: str) -> str:
        return self.row(instance_id).package

    def issue(self, instance_id: str) -> Issue:
        row = self.row(instance_id)
        return Issue(
            instance_id=row.id,
            repo=row.package,
            problem_statement=row.problem_statement,
            snippet=row.snippet,
            observed=row.snippet_before_output,
            expected=row.snippet_after_output,
        )

    async def prepare_public(
        self, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Progress
    ) -> PublicInstance:
        """The earlier release as a tree, and an environment with the row's pins."""
        row = self.row(instance_id)
        interpreter = _interpreter(row, workshop)
        if interpreter.minor != row.python:
            progress(f"{row.id}: no Python {row.python} here, trying {interpreter.version}")
        builder = Builder(workshop, interpreter, progress)
        before = self._release(row, row.before)
        key = await builder.environment(row.test_deps, before if row.install_self else None)
        archive = await builder.sdist(before)
        with trees.scratch() as folder:
            tree = trees.pack(unpack_sdist(archive, folder / "before"), trees_dir)
        environment = Environment(
            key=key, python=interpreter.version, runner=row.test_runner, env=row.env, pythonpath=row.pythonpath
        )
        return PublicInstance(
            issue=self.issue(instance_id), environment=environment, tree=tree, split=self.split(instance_id)
        )

    async def prepare_hidden(
        self, instance_id: str, public: PublicInstance, tree: Path, workshop: Workshop, progress: Progress
    ) -> HiddenInstance:
        """Gold patch and hidden tests from the later release, and the tests that stay green, as measured."""
        row = self.row(instance_id)
        builder = Builder(workshop, _interpreter(row, workshop), progress)
        archive = await builder.sdist(self._release(row, row.after))
        with trees.scratch() as folder:
            base, after = folder / "base", unpack_sdist(archive, folder / "after")
            trees.unpack(tree, base)
            patch = gold_patch(base, after, row.source_files)
            tests = tuple(_test_file(after, name) for name in row.test_files)
            lay_over(after, base, row.test_files)
            progress(f"{row.id}: measuring which tests the fix must keep")
            before = await workshop.run_tests(public, base, row.test_paths)
            lay_over(after, base, row.source_files)
            fixed = [await workshop.run_tests(public, base, row.test_paths) for _ in range(GOLD_RUNS)]
        found = compare(before, fixed)
        expected = self._compare(row, found.pass_to_pass, found.fail_to_pass, public.environment.python, progress)
        return HiddenInstance(
            instance_id=row.id,
            gold_patch=patch,
            test_files=tests,
            test_paths=row.test_paths,
            fail_to_pass=row.fail_to_pass,
            pass_to_pass=expected,
        )

    def _release(self, row: ReleaseRow, version: str) -> Release:
        pin = f"{row.package}=={version}"
        if pin not in self._sdists:
            raise DatasetError(f"instance {row.id}: sdists.json has no digest for {pin}")
        return Release(pin, self._sdists[pin])

    def _compare(
        self, row: ReleaseRow, kept: Sequence[str], fixed: Sequence[str], python: str, progress: Progress
    ) -> tuple[str, ...]:
        """The measured list, when it fits the row: exactly on the row's Python, with a notice on another."""
        missing = [test for test in row.fail_to_pass if test not in set(fixed)]
        if missing:
            raise DatasetError(
                f"{row.id}: on Python {python} the fix does not turn these tests green: {', '.join(missing)}"
            )
        if hashlib.sha256("\n".join(sorted(kept)).encode()).hexdigest() != row.pass_to_pass_sha256:
            words = f"{row.id}: {len(kept)} tests stay green on Python {python}, the row says {row.n_pass_to_pass}"
            if python.startswith(f"{row.python}."):
                raise DatasetError(f"{words} (or others)", hint="an environment that differs from the row's pins?")
            progress(words)
        return tuple(sorted(kept))


def unpack_sdist(archive: Path, folder: Path) -> Path:
    """Unpack an sdist and return its one top folder, without compiled files."""
    folder.mkdir()
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            extract(tar, folder, what=archive.name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DatasetError(f"{archive.name} cannot be unpacked: {error}") from error
    tops = list(folder.iterdir())
    if len(tops) != 1 or not tops[0].is_dir():
        raise DatasetError(f"{archive.name} has no single top folder")
    clean = folder.with_name(f"{folder.name}-clean")
    trees.copy(tops[0], clean)
    return clean


def gold_patch(base: Path, after: Path, names: Sequence[str]) -> str:
    """The change of the named files as git writes it; `base` is a clean repository and stays as it is.

    Raises DatasetError when nothing changes or when the patch is not UTF-8.
    """
    lay_over(after, base, names)
    git(base, "add", "--all", "--force", "--", *[f":(literal){name}" for name in names])
    raw = git(base, "diff", "--cached", "--no-color", "--no-ext-diff", "--no-renames", "--binary", "--full-index")
    git(base, "reset", "-q", "--hard")
    if not raw:
        raise DatasetError(f"the releases do not differ in {', '.join(names)}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DatasetError(f"the change of {', '.join(names)} is not UTF-8: {error}") from error


def lay_over(source: Path, target: Path, names: Sequence[str]) -> None:
    """Make the named files of `target` those of `source`: copied byte for byte, or removed where it has none."""
    for name in names:
        there = target / name
        there.unlink(missing_ok=True)
        if (source / name).is_file():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, there)


def _test_file(after: Path, name: str) -> FileContent:
    path = after / name
    return content(path, PurePosixPath(name)) if path.is_file() else FileContent(path=name, data=None)


def _interpreter(row: ReleaseRow, workshop: Workshop) -> Interpreter:
    return at(workshop.python) if workshop.python else find(row.python)
