"""Running one job: what every stage's program does around its body."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn, Protocol

from pydantic import ValidationError

from uchide.errors import PlanError, UchideError
from uchide.pipeline.procs import die_with_parent
from uchide.pipeline.progress import Reporter
from uchide.pipeline.spec import JobSpec
from uchide.records import Record
from uchide.redact import scrubbed_traceback
from uchide.store import AlreadyFinishedError, Artifact, Part, open_part
from uchide.store.atomic import explained
from uchide.store.manifest import MANIFEST


@dataclass(frozen=True)
class Work:
    """What a body gets: its orders, the part to write, and the artifacts it reads."""

    spec: JobSpec
    part: Part
    inputs: Mapping[str, tuple[Artifact, ...]]
    reporter: Reporter

    def one(self, role: str) -> Artifact:
        """The only artifact in this role."""
        (artifact,) = self.inputs[role]
        return artifact

    def finish(self, children: tuple[Artifact, ...] = ()) -> None:
        self.part.finish(inputs=(item for many in self.inputs.values() for item in many), children=children)


class Body(Protocol):
    """A module of `uchide.pipeline.stages`."""

    @property
    def MODELS(self) -> Mapping[str, type[Record]]: ...
    @property
    def VOLATILE_FILES(self) -> tuple[str, ...]: ...
    def run(self, work: Work) -> None: ...


def execute(spec_path: Path, body: Body) -> None:
    """Do the job described by `spec_path` and exit: 0 done, 1 with the reason in the progress file and the log."""
    guarded(spec_path, lambda spec, reporter: _work(spec, body, reporter))


def guarded(spec_path: Path, action: Callable[[JobSpec, Reporter], None]) -> None:
    """Run `action` as a job: it dies with Snakemake, its end and errors are reported, SIGTERM stops it cleanly."""
    parent = os.environ.get("UCHIDE_PARENT")
    die_with_parent(int(parent) if parent else None)
    signal.signal(signal.SIGTERM, _stop)
    sys.excepthook = scrubbed_traceback
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # in the C locale a log takes ASCII only
            stream.reconfigure(errors="backslashreplace")
    spec = load_spec(spec_path)
    reporter = Reporter(Path(spec.run) / "progress" / f"{spec.name}.json", spec.label)
    try:
        action(spec, reporter)
    except UchideError as error:
        reporter.end(str(error))
        print(f"{spec.name}: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        reporter.end(str(explained(error)))
        raise
    except SystemExit:
        reporter.end("stopped")
        raise
    except BaseException as error:
        reporter.end(f"fault in uchide: {type(error).__name__}: {error}")
        raise
    reporter.end()


def _work(spec: JobSpec, body: Body, reporter: Reporter) -> None:
    if (spec.folder / MANIFEST).exists():
        return  # another run made it meanwhile
    inputs = {role: tuple(Artifact(Path(spec.store) / rel) for rel in rels) for role, rels in spec.inputs.items()}
    try:
        with open_part(
            spec.folder,
            spec.identity,
            body.MODELS,
            code=spec.code,
            volatile_files=body.VOLATILE_FILES,
            notice=reporter.event,
        ) as part:
            body.run(Work(spec, part, inputs, reporter))
    except AlreadyFinishedError:
        return


def load_spec(path: Path) -> JobSpec:
    """Raises PlanError when the file is missing or was written by another version."""
    try:
        return JobSpec.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise PlanError(f"{path} is not a job of this version of uchide: {error}") from error


def _stop(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)
