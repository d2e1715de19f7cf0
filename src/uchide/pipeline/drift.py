"""What finished artifacts were made by and from: code that changed since, inputs that did."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uchide.pipeline.code import CodeBase
from uchide.pipeline.parts import PARTS
from uchide.pipeline.plan import Plan
from uchide.store import Artifact
from uchide.store.manifest import MANIFEST


def code_digests(root: Path) -> dict[str, str]:
    """Part label -> digest of its code in this checkout."""
    base = CodeBase(root)
    codes = {label: base.part_digest(part.entry, part.program, part.data) for label, part in PARTS.items()}
    base.save()
    return codes


@dataclass(frozen=True)
class Drift:
    """Finished parts of a stage that other code than today's made."""

    stage: str
    labels: tuple[str, ...]
    upstream: tuple[str, ...] = ()
    """Stages whose drift this stage inherits."""
    whole: bool = True
    """Whether the whole stage is finished."""


def drift(plan: Plan, store: Path, codes: Mapping[str, str]) -> list[Drift]:
    """Code drift of the stages that code alone does not rerun."""
    found: list[Drift] = []
    for stage, top in plan.tops.items():
        kinds = {part.kind: label for label, part in PARTS.items() if part.stage == stage and part.address == "calm"}
        if not kinds or plan.jobs[top].reuse:
            continue
        names = [top] if not plan.jobs[top].missing else _finished(plan, stage)
        made = [Artifact(store / name).run.codes for name in names]
        stale = {kinds[kind] for seen in made for kind, was in seen.items() if kind and set(was) - {codes[kinds[kind]]}}
        above = tuple(item.stage for item in found if made)
        if stale or above:
            found.append(Drift(stage, tuple(sorted(stale)), above, whole=not plan.jobs[top].missing))
    return found


def outdated(plan: Plan, store: Path) -> list[str]:
    """Labels of finished parts whose inputs have other content now than when they were read.

    A key stands for one content only as long as nobody removes an artifact by hand and a model answers otherwise the
    second time. Parts addressed by `calm` are left alone, as with code.
    """
    found: dict[str, None] = {}
    now: dict[str, str] = {}
    for name, job in plan.jobs.items():
        if job.missing or job.kind.address == "calm":
            continue
        read = Artifact(store / name).manifest.inputs
        for source in (source for many in job.inputs.values() for source in many):
            path = store / source.path
            if path.name not in read or not (path / MANIFEST).is_file():
                continue
            if source.path not in now:
                now[source.path] = Artifact(path).manifest.content_digest
            if now[source.path] != read[path.name]:
                found[job.kind.label] = None
    return list(found)


def _finished(plan: Plan, stage: str) -> list[str]:
    return [name for name, job in plan.jobs.items() if job.kind.stage == stage and not job.missing]
