"""Quick engine for tests of the frame: ids from a text file, trees that are three bytes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uchide.errors import DatasetError
from uchide.records import Environment, HiddenInstance, Issue, PublicInstance, digest

KINDS = ("quick",)


@dataclass
class Workshop:
    build: Any
    run_tests: Any
    python: Path | None = None


class Quick:
    def __init__(self, path: Path) -> None:
        self.name = "quick"
        data = (path / "ids.txt").read_bytes()
        self.digest = digest(data)
        self.ids = tuple(data.decode().split())

    def split(self, instance_id: str) -> str:
        return "train" if instance_id.endswith("1") else "heldout"

    def repo(self, instance_id: str) -> str:
        return instance_id.partition("-")[0]


def load(name: str, path: Path) -> Quick:
    if name not in KINDS:
        raise DatasetError(f"unknown dataset {name!r}")
    return Quick(path)


async def prepare_public(dataset: Quick, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Any) -> Any:
    if instance_id.startswith("broken"):
        raise DatasetError("it cannot be had")
    tree = digest(instance_id)
    (trees_dir / f"{tree}.tar.zst").write_bytes(instance_id.encode())
    for n in range(int(os.environ.get("QUICK_FILES", "0")) if instance_id.endswith("0") else 0):
        (trees_dir / f"extra-{n}").write_bytes(b"x")
    issue = Issue(instance_id=instance_id, repo=dataset.repo(instance_id), problem_statement="it is wrong")
    return PublicInstance(issue=issue, environment=Environment(key="e", python="3"), tree=tree)


async def prepare_hidden(dataset: Quick, instance_id: str, public: Any, tree: Path, workshop: Any, progress: Any) -> Any:
    assert tree.read_bytes() == instance_id.encode()
    if instance_id.startswith("hopeless"):
        raise DatasetError("the fix turns nothing green")
    return HiddenInstance(
        instance_id=instance_id,
        gold_patch="gold",
        test_files=(),
        test_paths=("t.py",),
        fail_to_pass=("t.py::f",),
        pass_to_pass=("t.py::p",),
    )
