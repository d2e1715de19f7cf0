"""What every dataset looks like to the stages, and what preparing needs from the host."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from uchide.errors import DatasetError
from uchide.protocols import Progress
from uchide.records import HiddenInstance, Issue, PublicInstance

Split = Literal["train", "heldout"]

RunTests = Callable[[PublicInstance, Path, Sequence[str]], Awaitable[Mapping[str, str]]]
"""Run test paths of an instance in a real sandbox on a work tree (a folder); gives a status per test id."""


class NetworkRun(Protocol):
    """Run one command in a build sandbox: network and pip's own configuration, nothing else of the host."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        writable: Mapping[str, Path],
        readable: Mapping[str, Path],
        env: Mapping[str, str],
        timeout_s: float,
    ) -> tuple[int, str]:
        """Mounts are guest path to host path. Gives the exit status and the output, both streams together."""
        ...


@dataclass(frozen=True)
class Workshop:
    """What preparing borrows from the parts beside it."""

    build: NetworkRun
    run_tests: RunTests
    python: Path | None = None
    """Use this interpreter for every environment; None looks for the version that a row names."""


class Dataset(Protocol):
    """A named, ordered set of instances, read and validated whole."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str:
        """SHA-256 over everything that decides the instances."""
        ...

    @property
    def ids(self) -> tuple[str, ...]: ...
    def split(self, instance_id: str) -> Split: ...
    def repo(self, instance_id: str) -> str: ...
    def issue(self, instance_id: str) -> Issue: ...
    async def prepare_public(
        self, instance_id: str, trees_dir: Path, workshop: Workshop, progress: Progress
    ) -> PublicInstance: ...
    async def prepare_hidden(
        self, instance_id: str, public: PublicInstance, tree: Path, workshop: Workshop, progress: Progress
    ) -> HiddenInstance: ...


def unknown(dataset: str, instance_id: str, ids: Sequence[str]) -> DatasetError:
    """The error for an id that a dataset does not have."""
    near = difflib.get_close_matches(instance_id, ids, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"it has {len(ids)} instances"
    return DatasetError(f"dataset {dataset} has no instance {instance_id!r}", hint=hint)
