"""Instances from any source: bundled benchmarks, release pairs, SWE-bench rows."""

from collections.abc import Callable
from pathlib import Path

from uchide.datasets.base import Dataset, Workshop
from uchide.datasets.mini import MiniDataset
from uchide.datasets.release_bugs import ReleaseBugs
from uchide.datasets.swebench import SweBench
from uchide.errors import DatasetError
from uchide.protocols import Progress
from uchide.records import HiddenInstance, PublicInstance

__all__ = ["Dataset", "Workshop", "load", "prepare_hidden", "prepare_public"]

KINDS: dict[str, Callable[[Path], Dataset]] = {"mini": MiniDataset, "release-bugs": ReleaseBugs, "swebench": SweBench}


def load(name: str, path: Path) -> Dataset:
    """The dataset `name`, read from `path` and validated whole. Raises DatasetError."""
    if name not in KINDS:
        raise DatasetError(f"unknown dataset {name!r}", hint=f"known: {', '.join(KINDS)}")
    return KINDS[name](path)


async def prepare_public(
    dataset: Dataset, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Progress
) -> PublicInstance:
    """Build an instance's base tree (into `trees_dir`) and its environment (into the cache).

    Raises DatasetError or EnvironmentBuildError when this instance cannot be had here: a reason to exclude it.
    """
    return await dataset.prepare_public(instance_id, trees_dir, workshop, progress)


async def prepare_hidden(
    dataset: Dataset, instance_id: str, public: PublicInstance, tree: Path, workshop: Workshop, progress: Progress
) -> HiddenInstance:
    """What graders see of an instance. `tree` is the archive of its base tree.

    Raises DatasetError when the tests do not behave as the dataset says: a reason to exclude it.
    """
    return await dataset.prepare_hidden(instance_id, public, tree, workshop, progress)
