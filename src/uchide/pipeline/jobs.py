"""Jobs: one part of one stage each, named by what it is made from. Pure values; nothing here reads a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from uchide.pipeline.parts import SCHEMA, PartKind
from uchide.records import digest
from uchide.store import Identity, instance_set

Inputs = Mapping[str, tuple["Source", ...]]
"""Role -> the artifacts a job reads in that role."""


@dataclass(frozen=True)
class Source:
    """An artifact that a job reads: made by `job` of the same plan, found at `path` under the store."""

    job: str
    path: str
    part: str
    calm: str
    stem: str
    """`calm` without the instance set: what a shard's key takes in, so that a subset does not move every shard."""
    key: str


@dataclass(frozen=True)
class Job:
    """One job. It is missing if and only if its manifest is."""

    kind: PartKind
    identity: Identity
    stem: str
    code: str
    config: Mapping[str, Any]
    inputs: Inputs
    ids: tuple[str, ...] = ()
    reuse: str = ""
    """For a reused stage: the folder to take it from."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Laid over `config` when the job runs; it changes no row, so it is part of no key."""
    missing: bool = field(default=True, compare=False)

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def source(self) -> Source:
        key = self.identity
        return Source(self.name, self.name, key.part, key.calm, self.stem, key.key)


@dataclass(frozen=True)
class JobMaker:
    """Makes jobs of one experiment: computes both keys."""

    dataset: str
    codes: Mapping[str, str]
    """Part label -> digest of its code."""
    salts: Mapping[str, str]
    """Stage, or stage and part (`tts-pick`), -> salt of `--from`."""

    def make(
        self,
        kind: PartKind,
        config: Mapping[str, Any],
        inputs: Inputs,
        ids: tuple[str, ...],
        *,
        where: str = "",
        sharded: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> Job:
        """`where` is the rest of the part's name (`main.r01_s1001.s000`). A sharded job takes its inputs' stems in."""
        part = f"{kind.kind}.{where}" if where else kind.kind
        base = {
            "stage": kind.stage,
            "part": part,
            "schema": SCHEMA,
            "config": config,
            "salt": [self.salts.get(kind.stage, ""), self.salts.get(kind.label, "") if kind.kind else ""],
        }
        stems = {role: [source.stem for source in many] for role, many in inputs.items()}
        calms = stems if sharded else {role: [source.calm for source in many] for role, many in inputs.items()}
        stem = digest({**base, "inputs": stems})[:12]
        calm = digest({**base, "inputs": calms, "ids": ids})[:12]
        code = self.codes[kind.label]
        keys = {role: [source.key for source in many] for role, many in inputs.items()}
        key = calm if kind.address == "calm" else digest([calm, keys, code])[:12]
        identity = Identity(
            stage=kind.stage,
            part=part,
            key=key,
            calm=calm,
            stem=stem,
            dataset=self.dataset,
            instances=instance_set(ids),
            n_instances=len(ids),
        )
        return Job(kind, identity, stem, code, config, inputs, ids, settings=settings or {})
