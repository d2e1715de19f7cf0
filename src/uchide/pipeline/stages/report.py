"""report: reads every artifact of the experiment and hands plain records to `uchide.report`."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from uchide import __version__
from uchide.pipeline.stages.instances import excluded
from uchide.pipeline.stages.tts_candidates import pooled
from uchide.pipeline.worker import Work
from uchide.records import Candidate, Excluded, Graded, Matrix, PickGraded, Preflight, PublicInstance, Record
from uchide.store import Artifact

if TYPE_CHECKING:
    from uchide.report import ArmInputs, ArtifactRef, ReportInputs, StageTime

MODELS: Mapping[str, type[Record]] = {}
VOLATILE_FILES: tuple[str, ...] = ("*",)


def run(work: Work) -> None:
    from uchide import report

    out = work.part.file("summary.json").parent
    report.build(report_inputs(work), out)
    work.finish()


def report_inputs(work: Work) -> "ReportInputs":
    """Everything the report is made from."""
    from uchide.report import ReportInputs

    stages = {stage: many[0] for stage, many in work.inputs.items()}
    public = stages["prepare"].children()["public"]
    hidden = stages["prepare"].children()["hidden"]
    out = excluded(public, hidden, stages["test"])
    bench, tts = stages["bench"].children(), stages["tts"].children()
    instances = [row for row in public.rows(PublicInstance) if row.instance_id not in out]
    ids = frozenset(row.instance_id for row in instances)
    arms = tuple(_arm(work, arm, bench, tts, ids) for arm in _arm_names(work, bench))
    by_name = {arm.name: arm for arm in arms}
    pools = work.spec.config.get("pools", {})
    arms += tuple(_pool(name, [by_name[arm] for arm in members], tts, ids) for name, members in pools.items())
    run_folder = Path(work.spec.run)
    return ReportInputs(
        experiment=work.spec.config["experiment"],
        arms=arms,
        instances=instances,
        title=work.spec.config["title"] or "",
        preflight=list(stages["test"].rows(Preflight)),
        excluded=[Excluded(instance_id=name, reason=reason) for name, reason in out.items()],
        times=list(_times(stages)),
        artifacts=list(_references(stages)),
        versions=_versions(arms),
        command=_command(work.spec.config["experiment"], work.spec.ids, len(arms[0].runs)),
        spec=(run_folder / "experiment.yaml").read_text(encoding="utf-8"),
        trajectories=_trajectories(bench),
    )


def _command(name: str, ids: Sequence[str], runs: int) -> str:
    """What to type to get this again."""
    whole = name.removesuffix(".subset")
    if whole == name:
        return f"uchide run experiments/{name}.yaml"
    chosen = " ".join(f"-i {item}" for item in ids)
    return f"uchide run experiments/{whole}.yaml --runs {runs} {chosen}"


def _arm_names(work: Work, bench: Mapping[str, Artifact]) -> list[str]:
    """Arms of the experiment in its order, then arms that only a reused bench has."""
    there = [part.split(".")[1] for part in bench]
    return [
        *[arm for arm in work.spec.config["arms"] if arm in there],
        *sorted(set(there) - set(work.spec.config["arms"])),
    ]


def _pool(name: str, members: Sequence["ArmInputs"], tts: Mapping[str, Artifact], ids: Collection[str]) -> "ArmInputs":
    """Selection over the candidates of several arms; its runs are called `<arm>.<run>`."""
    from uchide.report import ArmInputs

    return ArmInputs(
        name=name,
        runs=tuple(sorted(f"{arm.name}.{run}" for arm in members for run in arm.runs)),
        candidates=[pooled(row, name) for arm in members for row in arm.candidates],
        graded=[pooled(row, name) for arm in members for row in arm.graded],
        matrices=[row for row in tts[f"matrix.{name}"].rows(Matrix) if row.instance_id in ids],
        picks=[row for row in tts[f"grade.{name}"].rows(PickGraded) if row.pick.instance_id in ids],
        agent=", ".join(dict.fromkeys(arm.agent for arm in members)),
        model=", ".join(dict.fromkeys(arm.model for arm in members)),
        pool=tuple(arm.name for arm in members),
    )


def _arm(
    work: Work, arm: str, bench: Mapping[str, Artifact], tts: Mapping[str, Artifact], ids: Collection[str]
) -> "ArmInputs":
    """Rows of the instances `ids`: a bench that was reused, or made before test changed, may hold more."""
    from uchide.report import ArmInputs

    generate = [kid for part, kid in bench.items() if part.startswith(f"generate.{arm}.")]
    grade = [kid for part, kid in bench.items() if part.startswith(f"grade.{arm}.")]
    agent, model = work.spec.config["arms"].get(arm, ("", ""))
    return ArmInputs(
        name=arm,
        runs=tuple(sorted({kid.manifest.part.split(".")[2] for kid in generate})),
        candidates=[row for kid in generate for row in kid.rows(Candidate) if row.instance_id in ids],
        graded=[row for kid in grade for row in kid.rows(Graded) if row.instance_id in ids],
        matrices=[row for row in tts[f"matrix.{arm}"].rows(Matrix) if row.instance_id in ids],
        picks=[row for row in tts[f"grade.{arm}"].rows(PickGraded) if row.pick.instance_id in ids],
        agent=agent,
        model=model,
        differs=work.spec.config.get("differs", {}).get(arm, ""),
    )


def _walk(stages: Mapping[str, Artifact]) -> Iterator[tuple[str, Artifact]]:
    """(stage, artifact) of every stage and every part."""
    for stage, top in stages.items():
        yield stage, top
        for kid in top.children().values():
            yield stage, kid


def _times(stages: Mapping[str, Artifact]) -> Iterable["StageTime"]:
    from uchide.report import StageTime

    for stage, artifact in _walk(stages):
        identity, info = artifact.manifest.identity, artifact.run
        if info.reused_from:
            continue
        seconds = [
            (datetime.fromisoformat(session.end) - datetime.fromisoformat(session.start)).total_seconds()
            for session in info.sessions
            if session.end
        ]
        pieces = identity.part.split(".")
        arm = pieces[1] if len(pieces) > 1 else ""
        yield StageTime(stage, info.cpu_seconds, round(sum(seconds), 3), arm=arm, part=identity.kind)


def _references(stages: Mapping[str, Artifact]) -> Iterable["ArtifactRef"]:
    from uchide.report import ArtifactRef

    for stage, artifact in _walk(stages):
        identity = artifact.manifest.identity
        codes = sorted({code for seen in artifact.run.codes.values() for code in seen})
        yield ArtifactRef(
            name="-".join(item for item in (stage, identity.part) if item),
            key=identity.key,
            content_digest=artifact.manifest.content_digest,
            reused_from=artifact.run.reused_from,
            code_version=" ".join(codes),
        )


def _versions(arms: Iterable["ArmInputs"]) -> dict[str, str]:
    graders = {(row.verdict.grader, row.verdict.grader_version) for arm in arms for row in arm.graded}
    return {
        "uchide": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        **{f"grader {name}": version for name, version in sorted(graders)},
    }


def _trajectories(bench: Mapping[str, Artifact]) -> dict[str, Path]:
    found = {}
    for part, kid in bench.items():
        if part.startswith("generate."):
            for row in kid.rows(Candidate):
                path = kid.path / row.trajectory
                if path.is_file() and path.stat().st_size:
                    found[row.candidate_id] = path
    return found
