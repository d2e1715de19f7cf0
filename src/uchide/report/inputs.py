"""What a report is made from: plain records that were read elsewhere. This module reads no artifact and no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uchide.records import Candidate, Excluded, Graded, Matrix, PickGraded, Preflight, PublicInstance


@dataclass(frozen=True)
class StageTime:
    """CPU and wall seconds of one finished stage or part, as its `run.json` says. Several rows of a stage are added."""

    stage: str
    """`prepare`, `test`, `bench`, `tts`, `report`, ... without the part."""
    cpu_seconds: float
    wall_seconds: float
    arm: str = ""
    """The arm it worked for; empty for work that all arms share."""
    part: str = ""
    """`generate`, `grade`, `matrix`, `pick`, ...; empty where a stage has no parts. For the table of costs only."""


@dataclass(frozen=True)
class ArtifactRef:
    """One artifact the numbers came from, for the provenance section."""

    name: str
    """Stage and part, e.g. `bench-generate.main.r01_s1001.s000`."""
    key: str
    content_digest: str
    reused_from: str = ""
    """Where the artifact was taken from when the stage did not run; empty when it ran."""
    code_version: str = ""


@dataclass(frozen=True)
class ArmInputs:
    """Everything one arm made. Rows may come in any order; `runs` decides the order of runs."""

    name: str
    runs: tuple[str, ...]
    """Run labels in run order, e.g. `r01_s1001`; K is their number."""
    candidates: Sequence[Candidate]
    """Exactly one per run and instance."""
    graded: Sequence[Graded]
    """Exactly one per candidate, of the same patch."""
    matrices: Sequence[Matrix] = ()
    """At most one per instance; none when tts did not run."""
    picks: Sequence[PickGraded] = ()
    """For each selector exactly one per instance; none when tts did not run."""
    agent: str = ""
    model: str = ""
    differs: str = ""
    """What its configuration has otherwise than the first arm's, e.g. `agent.mechanisms.skills: false`."""
    pool: tuple[str, ...] = ()
    """The arms whose candidates these are, again, for selection over all of them; totals must not count them twice."""


@dataclass(frozen=True)
class ReportInputs:
    """One experiment. `uchide.report.linked.link` says what must hold between the parts.

    Nothing here is formatted or escaped: text from models, tests and issues comes as it was recorded.
    """

    experiment: str
    arms: tuple[ArmInputs, ...]
    """At least one; the first one fills the top level of `summary.json`."""
    instances: Sequence[PublicInstance]
    """The instances that take part, in the order of the page. Excluded ones are not among them."""
    title: str = ""
    description: str = ""
    preflight: Sequence[Preflight] = ()
    excluded: Sequence[Excluded] = ()
    times: Sequence[StageTime] = ()
    artifacts: Sequence[ArtifactRef] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    """What decided the outcome, by name: `uchide`, `python`, `grader native`, `snakemake`, ..."""
    command: str = ""
    """The command that reproduces this experiment from a clone."""
    spec: str = ""
    """The experiment file as text (already without secrets)."""
    trajectories: Mapping[str, Path] = field(default_factory=dict)
    """candidate_id -> trajectory file. A candidate without one is shown without its turns."""
    warnings: tuple[str, ...] = ()
    """Sentences shown at the top of the page, e.g. "not leaderboard-valid: agents were given PASS_TO_PASS"."""
    selector: str = "cross_agent"
    """The selector of the headline and of the marks in the grid."""
