"""Links candidates, verdicts, matrices and picks by run, instance and patch, and refuses what does not belong together.

Every number of the report is computed from an `Arm`, so that none can pair a verdict with another candidate's patch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from uchide.errors import ReportError
from uchide.records import Candidate, Graded, Matrix, PickGraded, PublicInstance, Verdict
from uchide.report.inputs import ArmInputs, ReportInputs

RERUN_TTS = "rerun the tts stage: `uchide run EXPERIMENT --from tts`"
MISSING = "instances that were unfit when bench ran have no candidates: `uchide run EXPERIMENT --from bench`"

Key = TypeVar("Key")
Row = TypeVar("Row")


@dataclass(frozen=True)
class Arm:
    """One arm with complete tables: every (run, instance) has a candidate and a verdict of exactly its patch."""

    name: str
    agent: str
    model: str
    runs: tuple[str, ...]
    instances: tuple[PublicInstance, ...]
    candidates: Mapping[tuple[str, str], Candidate]
    """By (run, instance_id)."""
    verdicts: Mapping[tuple[str, str], Verdict]
    """By (run, instance_id)."""
    matrices: Mapping[str, Matrix]
    """By instance_id; may lack instances."""
    picks: Mapping[str, Mapping[str, PickGraded]]
    """By selector and instance_id; every selector has every instance."""
    differs: str = ""
    pool: tuple[str, ...] = ()
    """The arms whose rows these are, again."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(instance.instance_id for instance in self.instances)

    def resolved(self, run: str, instance_id: str) -> bool:
        return self.verdicts[run, instance_id].resolved

    def is_infra(self, run: str, instance_id: str) -> bool:
        """Neither the agent nor its patch was judged: the row says nothing about the model."""
        key = run, instance_id
        return self.candidates[key].exit_status == "infra" or self.verdicts[key].category == "infra"

    def distinct(self, instance_id: str) -> dict[str, tuple[str, ...]]:
        """The distinct non-empty patches of an instance: patch_sha256 -> the runs that made it, in run order."""
        found: dict[str, tuple[str, ...]] = {}
        for run in self.runs:
            candidate = self.candidates[run, instance_id]
            if candidate.patch.strip():
                found[candidate.patch_sha256] = (*found.get(candidate.patch_sha256, ()), run)
        return found


def link(inputs: ReportInputs) -> tuple[Arm, ...]:
    """The arms of `inputs`, linked. Raises ReportError naming the first row that is doubled, missing or foreign."""
    if not inputs.arms:
        raise ReportError(f"report of {inputs.experiment}: there is no arm", hint="run the bench stage first")
    if not inputs.instances:
        raise ReportError(
            f"report of {inputs.experiment}: no instance takes part",
            hint="look at the preflight: all of them may be excluded",
        )
    once(((i.instance_id, i) for i in inputs.instances), "instances")
    once(((arm.name, arm) for arm in inputs.arms), "arms")
    return tuple(link_arm(arm, tuple(inputs.instances)) for arm in inputs.arms)


def link_arm(arm: ArmInputs, instances: tuple[PublicInstance, ...]) -> Arm:
    if not arm.runs:
        raise ReportError(f"arm {arm.name}: there is no run", hint="an experiment needs `runs` of at least 1")
    ids = [instance.instance_id for instance in instances]
    cells = {(run, instance_id) for run in arm.runs for instance_id in ids}
    candidates = once((((c.run, c.instance_id), c) for c in arm.candidates), f"candidates of arm {arm.name}")
    graded = once((((g.run, g.instance_id), g) for g in arm.graded), f"verdicts of arm {arm.name}")
    complete(candidates, cells, f"candidates of arm {arm.name}")
    complete(graded, cells, f"verdicts of arm {arm.name}")
    for key, row in graded.items():
        same_patch(row, candidates[key])
    matrices = once(((m.instance_id, m) for m in arm.matrices), f"matrices of arm {arm.name}")
    complete(matrices, set(ids) & set(matrices), f"matrices of arm {arm.name}")
    for matrix in matrices.values():
        check_matrix(matrix, candidates, f"matrix of {matrix.instance_id} in arm {arm.name}")
    return Arm(
        name=arm.name,
        agent=arm.agent,
        model=arm.model,
        runs=arm.runs,
        instances=instances,
        candidates=candidates,
        verdicts={key: row.verdict for key, row in graded.items()},
        matrices=matrices,
        picks=link_picks(arm, set(ids), candidates),
        differs=arm.differs,
        pool=arm.pool,
    )


def check_matrix(matrix: Matrix, candidates: Mapping[tuple[str, str], Candidate], where: str) -> None:
    for patch in matrix.patches:
        for run in patch.runs:
            candidate = candidates.get((run, matrix.instance_id))
            if candidate is None or candidate.patch_sha256 != patch.patch_sha256:
                raise ReportError(f"{where}: run {run} did not make {patch.patch_sha256[:12]}", hint=RERUN_TTS)
    patches = {patch.patch_sha256 for patch in matrix.patches}
    tests = {suite.suite_sha256: {test.id for test in suite.tests} for suite in matrix.suites}
    for sha, row in matrix.outcomes.items():
        known = sha in patches and all(outcomes.keys() <= tests.get(suite, set()) for suite, outcomes in row.items())
        if not known:
            raise ReportError(f"{where}: an outcome of {sha[:12]} has no such patch, suite or test", hint=RERUN_TTS)


def link_picks(
    arm: ArmInputs, ids: set[str], candidates: Mapping[tuple[str, str], Candidate]
) -> dict[str, dict[str, PickGraded]]:
    selectors = dict.fromkeys(row.pick.selector for row in arm.picks)
    linked = {}
    for selector in selectors:
        where = f"picks of {selector} in arm {arm.name}"
        rows = once(((r.pick.instance_id, r) for r in arm.picks if r.pick.selector == selector), where)
        complete(rows, ids, where)
        for instance_id, row in rows.items():
            check_pick(row, candidates, f"{where}: {instance_id}")
        linked[selector] = rows
    return linked


def check_pick(row: PickGraded, candidates: Mapping[tuple[str, str], Candidate], where: str) -> None:
    pick, verdict = row.pick, row.verdict
    if pick.run is None:
        if verdict is not None:
            raise ReportError(f"{where}: a verdict without a pick", hint=RERUN_TTS)
        return
    candidate = candidates.get((pick.run, pick.instance_id))
    if candidate is None or candidate.patch_sha256 != pick.patch_sha256:
        raise ReportError(f"{where}: run {pick.run} did not make the picked patch", hint=RERUN_TTS)
    if verdict is None or verdict.patch_sha256 != pick.patch_sha256:
        raise ReportError(f"{where}: the verdict is not of the picked patch", hint=RERUN_TTS)


def same_patch(graded: Graded, candidate: Candidate) -> None:
    if graded.verdict.patch_sha256 != candidate.patch_sha256 or graded.candidate_id != candidate.candidate_id:
        raise ReportError(
            f"{candidate.candidate_id}: its verdict is of another patch "
            f"({graded.verdict.patch_sha256[:12]}, not {candidate.patch_sha256[:12]})",
            hint="the grade and generate artifacts do not belong together: rerun from bench",
        )


def once(rows: Iterable[tuple[Key, Row]], where: str) -> dict[Key, Row]:
    table: dict[Key, Row] = {}
    for key, row in rows:
        if key in table:
            raise ReportError(f"{where}: {named(key)} stands there twice", hint="run `uchide artifacts verify`")
        table[key] = row
    return table


def complete(rows: Mapping[Key, object], wanted: set[Key], where: str) -> None:
    missing, foreign = wanted - set(rows), set(rows) - wanted
    if missing:
        first = min(map(named, missing))
        raise ReportError(f"{where}: {len(missing)} missing, e.g. {first}", hint=MISSING)
    if foreign:
        first = min(map(named, foreign))
        raise ReportError(f"{where}: {first} belongs to no run or instance of this experiment")


def named(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
