"""What one job is told: a file in the run folder, written by the planner and read by a stage's program."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from uchide.records import Record
from uchide.store import Identity


class JobSpec(Record):
    """One job. Paths of inputs are relative to the store."""

    schema_version: Literal[1] = 1
    label: str
    """`bench-generate`, `tts`, ..."""
    identity: Identity
    code: str
    config: dict[str, Any]
    inputs: dict[str, tuple[str, ...]]
    ids: tuple[str, ...] = ()
    reuse: str = ""
    concurrency: int = Field(ge=1)
    max_infra: float
    preflight: Literal["exclude", "fatal"]
    spend: dict[str, Any] = Field(default_factory=dict)
    """`policy.spend`: see `uchide.llm.spend.SpendCaps`."""
    ledger: str
    """Folder in which the experiment's jobs write down what their models used."""
    dataset_name: str
    dataset_path: str
    root: str
    store: str
    run: str
    """The run folder: progress, logs, a copy of the experiment file."""

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def folder(self) -> Path:
        """Where the artifact is made."""
        return Path(self.store) / self.name


class FrozenJob(Record):
    """What Snakemake needs to know about a job."""

    label: str
    inputs: tuple[str, ...]
    """Jobs of the same frozen plan that must end first."""
    threads: int


class FrozenPlan(Record):
    """What Snakemake is started on: only missing jobs, fixed once and for all."""

    schema_version: Literal[1] = 1
    experiment: str
    run: str
    store: str
    code: str
    """Copy of the code that every job runs with."""
    python: str
    cores: int
    targets: tuple[str, ...]
    jobs: dict[str, FrozenJob]
    pointers: dict[str, str]
    """Stage -> artifact name, set when all is done."""
