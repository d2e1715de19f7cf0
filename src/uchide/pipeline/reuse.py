"""Reuse: a stage given as an earlier artifact instead of run. Checks what it is, then stands in for the stage."""

from dataclasses import dataclass, replace
from pathlib import Path

from uchide.errors import PlanError
from uchide.paths import Root
from uchide.pipeline.jobs import Job, Source
from uchide.pipeline.parts import PARTS
from uchide.store import Artifact, Identity, instance_set
from uchide.store.manifest import MANIFEST

NEEDS = {"prepare": ("public", "hidden"), "bench": ("generate", "grade")}


@dataclass(frozen=True)
class Given:
    """A finished artifact that takes a stage's place."""

    stage: str
    artifact: Artifact
    own_store: bool
    """It was made in this store, where a key stands for one content; elsewhere only its content identifies it."""

    def job(self, ids: tuple[str, ...]) -> Job:
        """The job that checks every byte of the artifact and links it into the store."""
        identity = self.artifact.manifest.identity
        content = self.artifact.manifest.content_digest[:12]
        key, calm, stem = self._keys(self.artifact)
        named = Identity(
            stage=self.stage,
            part="reuse",
            key=content,
            calm=calm,
            stem=stem,
            dataset=identity.dataset,
            instances=identity.instances,
            n_instances=identity.n_instances,
        )
        return replace(
            Job(PARTS[self.stage], named, stem, "", {"key": key}, {}, ids), reuse=str(self.artifact.path.resolve())
        )

    def sources(self, job: str) -> list[Source]:
        """Its parts, as later stages find them inside the linked copy."""
        found = []
        for part, kid in self.artifact.children().items():
            key, calm, stem = self._keys(kid)
            found.append(Source(job, f"{job}/children/{kid.name}", part, calm, stem, key))
        return found

    def _keys(self, artifact: Artifact) -> tuple[str, str, str]:
        if self.own_store:
            identity = artifact.manifest.identity
            return identity.key, identity.calm, identity.stem
        content = artifact.manifest.content_digest[:12]
        return content, content, content


def find_given(root: Root, stage: str, where: str, dataset: str, ids: tuple[str, ...]) -> Given:
    """The artifact that `reuse: {stage: where}` names: a folder, or an experiment that finished the stage.

    Raises PlanError naming the first field that does not fit; StoreError when parts of it are missing.
    """
    path = _folder(root, stage, where)
    if not (path / MANIFEST).is_file():
        raise PlanError(f"reuse.{stage}: {path} holds no {MANIFEST}: it is not a finished artifact")
    artifact = Artifact(path)
    _check(stage, artifact, dataset, ids)
    identity = artifact.manifest.identity
    return Given(stage, artifact, own_store=path == root.store.resolve() / identity.name)


def _folder(root: Root, stage: str, where: str) -> Path:
    candidates = [(root.path / Path(where).expanduser())]
    if "/" not in where:
        candidates.insert(0, root.home(where) / stage)
    for path in candidates:
        if path.is_dir():
            return path.resolve()
    raise PlanError(
        f"reuse.{stage}: {where!r} is neither a folder nor an experiment with a finished {stage}",
        hint=f"looked for {' and '.join(map(str, candidates))}",
    )


def _check(stage: str, artifact: Artifact, dataset: str, ids: tuple[str, ...]) -> None:
    identity = artifact.manifest.identity
    wanted = {"stage": stage, "dataset": dataset, "instances": instance_set(ids)}
    for field, value in wanted.items():
        got = getattr(identity, field)
        if got != value:
            counts = f" ({identity.n_instances} instances there, {len(ids)} here)" if field == "instances" else ""
            needs = f"this experiment needs {value[:16]!r}{counts}"
            raise PlanError(f"reuse.{stage}: {field} is {got[:16]!r} in {artifact.path}, {needs}")
    if identity.part:
        raise PlanError(f"reuse.{stage}: {artifact.path} is one part ({identity.part}), not the whole stage")
    kinds = {kid.manifest.identity.kind for kid in artifact.children().values()}
    if missing := [kind for kind in NEEDS[stage] if kind not in kinds]:
        raise PlanError(f"reuse.{stage}: {artifact.path} has no part {missing[0]!r}")
