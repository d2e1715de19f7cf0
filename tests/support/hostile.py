"""Where hostile inputs are tried: a finished artifact to lose, the command line in this process, and what it said."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.report import candidate, graded
from uchide.cli import main
from uchide.errors import UchideError
from uchide.paths import Root
from uchide.records import Candidate, Graded
from uchide.sandboxes.program import find as find_bwrap
from uchide.store import Artifact, Identity, instance_set, open_part

CHECKOUT = Path(__file__).parents[2]
IDS = ("toy-1", "toy-2")
RUN = "r01_s1001"


@dataclass(frozen=True)
class Said:
    """How a command, or the library call that it stands on, ended."""

    code: int
    text: str


@dataclass
class Place:
    """A folder for the input of one case, and a store with one finished bench in it."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def store(self) -> Path:
        return self.artifacts / "store"

    @property
    def root(self) -> Root:
        return Root(CHECKOUT, self.artifacts)

    @property
    def bench(self) -> Path:
        return next(
            path for path in self.store.glob("bench-*") if "generate" not in path.name and "grade" not in path.name
        )

    @property
    def generate(self) -> Path:
        return next(self.store.glob("bench-generate*"))

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    @staticmethod
    def command(*args: str) -> list[str]:
        return [sys.executable, "-m", "uchide.cli.main", *args, "--root", str(CHECKOUT)]

    def uchide(self, *args: str, artifacts: Path | None = None) -> Said:
        """The command line, as a user starts it."""
        self.monkeypatch.setenv("UCHIDE_ARTIFACTS", str(artifacts or self.artifacts))
        self.monkeypatch.setenv("UCHIDE_CACHE", str(self.folder.parent / "cache"))
        self.monkeypatch.setattr(sys, "argv", ["uchide", *args, "--root", str(CHECKOUT)])
        try:
            main.run()
        except SystemExit as end:
            caught = self.capsys.readouterr()
            return Said(int(end.code or 0), caught.out + caught.err)
        raise AssertionError("the command line always exits")

    def experiment(self, data: str | bytes, *args: str) -> Said:
        """`uchide run FILE --dry-run` on a file of these bytes."""
        return self.uchide("run", str(self.write("x.yaml", data)), "--dry-run", *args)

    @staticmethod
    def call(work: Callable[[], object]) -> Said:
        """A library call; its error becomes what the command line makes of it."""
        try:
            return Said(0, str(work()))
        except UchideError as error:
            return Said(1, str(error))


def make_bench(store: Path) -> None:
    """A finished bench of two instances: candidates with trajectories, verdicts, and their parent."""

    def identity(part: str, key: str) -> Identity:
        return Identity(
            stage="bench", part=part, key=key * 12, calm=key * 12, dataset="d" * 64, instances=instance_set(IDS),
            n_instances=len(IDS),
        )  # fmt: skip

    made = [candidate(RUN, name, f"+{name}\n") for name in IDS]
    parts: list[tuple[Identity, type, list]] = [
        (identity(f"generate.main.{RUN}.s000", "a"), Candidate, made),
        (identity(f"grade.main.{RUN}.s000", "b"), Graded, [graded(row, "resolved") for row in made]),
    ]
    for who, model, rows in parts:
        with open_part(store / who.name, who, {"rows": model}, notice=str) as part:
            for row in rows:
                part.append(row, id=row.instance_id)
                part.file(f"trajectories/{row.candidate_id}.jsonl.zst").write_bytes(b"not looked at")
            part.finish()
    top = identity("", "c")
    with open_part(store / top.name, top, notice=str) as part:
        part.finish(children=[Artifact(store / who.name) for who, _, _ in parts])


def snapshot(folder: Path) -> dict[str, str]:
    """Path -> digest of every file below; links by their target."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        if path.is_symlink():
            found[str(path.relative_to(folder))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def flip(path: Path, at: int = 100) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def child(place: Place, argv: list[str], **env: str) -> Said:
    """A program of its own, on the place's artifacts."""
    own = {"UCHIDE_ARTIFACTS": str(place.artifacts), "UCHIDE_CACHE": str(place.folder.parent / "cache")}
    done = subprocess.run(
        argv,
        env={**os.environ, **own, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=120,
    )
    return Said(done.returncode, done.stdout.decode("utf-8", "replace"))


def bwrapped(*mounts: str) -> list[str]:
    """Beginning of a command that sees this host with other mounts; works for root and for an ordinary user."""
    return [str(find_bwrap()), "--dev-bind", "/", "/", *mounts, "--die-with-parent"]


def quick_checkout(path: Path, *ids: str) -> Any:
    """A checkout with quick engines (tests/integration/frame.py) and these instances, one run of each."""
    spec = importlib.util.spec_from_file_location("frame", CHECKOUT / "tests" / "integration" / "frame.py")
    assert spec is not None
    assert spec.loader is not None
    frame = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(frame)
    checkout = frame.Checkout.make(path)
    checkout.write("datasets/quick/ids.txt", "\n".join(ids) + "\n")
    checkout.edit("experiments/x.yaml", "runs: 2", "runs: 1")
    return checkout
