"""Where things lie: one contract for every folder of a checkout and of the user's cache."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from uchide.errors import ConfigError

_IS_UCHIDE = re.compile(r"""^name\s*=\s*["']uchide["']""", re.MULTILINE)


@dataclass(frozen=True)
class Root:
    """A checkout of Uchide and what is kept in or beside it."""

    path: Path
    artifacts: Path
    """`artifacts/` of the checkout, or `$UCHIDE_ARTIFACTS`."""

    @property
    def store(self) -> Path:
        """Every artifact, by name and key."""
        return self.artifacts / "store"

    @property
    def experiments(self) -> Path:
        return self.path / "experiments"

    @property
    def configs(self) -> Path:
        return self.path / "configs"

    def home(self, experiment: str) -> Path:
        """Pointers to an experiment's artifacts, its run folders and its lease."""
        return self.artifacts / experiment

    def spend(self, experiment: str) -> Path:
        """What an experiment's models have used so far: a file per job. Deleting the folder counts from zero again."""
        return self.home(experiment) / "spend"

    def runs(self, experiment: str) -> Path:
        """One folder per start of the controller: frozen plan, copy of the code, receipts, logs."""
        return self.home(experiment) / "runs"

    def report(self, experiment: str) -> Path:
        return self.path / "reports" / experiment


def find_root(given: Path | None = None) -> Root:
    """The checkout at `given`, else the first one found walking up from the working directory.

    Raises ConfigError when there is none.
    """
    start = (given or Path.cwd()).resolve()
    for folder in [start] if given else [start, *start.parents]:
        if _is_checkout(folder):
            outside = os.environ.get("UCHIDE_ARTIFACTS")
            return Root(folder, Path(outside).expanduser().resolve() if outside else folder / "artifacts")
    where = f"{start} is not a checkout of Uchide" if given else f"no checkout of Uchide at or above {start}"
    raise ConfigError(where, hint="go into the clone, or name it with --root")


def _is_checkout(folder: Path) -> bool:
    try:
        return bool(_IS_UCHIDE.search((folder / "pyproject.toml").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False


def scratch_dir() -> Path:
    """Local files of this host that let a killed rollout go on: `scratch` in the cache. Not created here."""
    return cache_dir() / "scratch"


def backoff_dir() -> Path:
    """How long each model server asked this machine's jobs to wait: `backoff` in the cache. Not created here."""
    return cache_dir() / "backoff"


def cache_dir() -> Path:
    """Built environments, downloads and verdicts, shared by all checkouts of this user.

    `$UCHIDE_CACHE`, else `$XDG_CACHE_HOME/uchide`, else `~/.cache/uchide`. Not created here.
    """
    own = os.environ.get("UCHIDE_CACHE")
    if own:
        return Path(own).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uchide"
