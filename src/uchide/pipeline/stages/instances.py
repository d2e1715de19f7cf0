"""What parts read of prepare and test: instances, their trees and environments, and which of them take part."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uchide.errors import EnvironmentBuildError
from uchide.pipeline.worker import Work
from uchide.records import Excluded, HiddenInstance, Preflight, PublicInstance
from uchide.store import Artifact

if TYPE_CHECKING:
    from uchide.datasets import Workshop


@dataclass(frozen=True)
class Place:
    """An instance with the host paths a sandbox is made from."""

    instance: PublicInstance
    tree: Path
    environment: Path
    python_home: Path


def public_instances(public: Artifact) -> dict[str, PublicInstance]:
    return {row.instance_id: row for row in public.rows(PublicInstance)}


def hidden_instances(hidden: Artifact) -> dict[str, HiddenInstance]:
    return {row.instance_id: row for row in hidden.rows(HiddenInstance)}


def excluded(*artifacts: Artifact) -> dict[str, str]:
    """Instance id -> why it takes no part, of prepare's parts and of test."""
    reasons: dict[str, str] = {}
    for artifact in artifacts:
        for row in artifact.rows(Excluded, "excluded"):
            reasons.setdefault(row.instance_id, row.reason)
        if artifact.manifest.stage == "test":
            for flight in artifact.rows(Preflight):
                if not flight.ok:
                    reasons.setdefault(flight.instance_id, flight.reason)
    return reasons


async def place(work: Work, public: Artifact, instance: PublicInstance) -> Place:
    """Where an instance's tree and environment lie. An environment that this host's cache lacks is built again.

    Raises EnvironmentBuildError when that does not give the same environment.
    """
    from uchide.datasets import environments

    key = instance.environment.key
    if not environments.is_built(key):
        await _restore(work, instance)
    built = environments.locate(key)
    return Place(instance, public.file(f"trees/{instance.tree}.tar.zst"), built.root, built.python_home)


async def _restore(work: Work, instance: PublicInstance) -> None:
    from uchide import datasets

    work.reporter.event(f"{instance.instance_id}: its environment is not in this host's cache, building it again")
    dataset = datasets.load(work.spec.dataset_name, dataset_path(work))
    with tempfile.TemporaryDirectory(prefix="uchide-restore-") as scratch:
        again = await datasets.prepare_public(
            dataset, instance.instance_id, Path(scratch), workshop(work), work.reporter.event
        )
    if again.environment.key != instance.environment.key:
        raise EnvironmentBuildError(
            f"{instance.instance_id}: this host builds environment {again.environment.key[:12]}, "
            f"the artifact was made with {instance.environment.key[:12]}",
            hint="run with --from prepare",
        )


def dataset_path(work: Work) -> Path:
    return Path(work.spec.root) / work.spec.dataset_path


def workshop(work: Work) -> "Workshop":
    """What datasets borrow: a build sandbox with network, and tests run in the experiment's sandbox."""
    from uchide.datasets import Workshop
    from uchide.sandboxes import provider
    from uchide.sandboxes.build import build_command
    from uchide.testing.runs import run_ids
    from uchide.testing.spec import instance_spec

    async def run_tests(instance: PublicInstance, tree: Path, paths: Sequence[str]) -> dict[str, str]:
        from uchide.datasets import environments

        built = environments.locate(instance.environment.key)
        spec = instance_spec(instance, tree, built.root, built.python_home)
        async with provider("bwrap").open(spec) as sandbox:
            run = await run_ids(sandbox, instance.environment.runner, paths, timeout_s=1800.0, per_test_timeout_s=60.0)
        return {test: str(status) for test, status in run.statuses.items()}

    return Workshop(build=build_command, run_tests=run_tests)
