"""Where recordings come from: a folder of session files, and its content as one digest."""

import difflib
import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from uchide.errors import ConfigError, ModelError
from uchide.llm.fingerprint import file_stem
from uchide.llm.transcript import SUFFIX
from uchide.store.atomic import file_digest, lfs_hint


def _folder(given: object) -> object:
    return {"path": given} if isinstance(given, str | Path) else given


class From(BaseModel):
    """A folder of recordings; `digest` is that of its content when the experiment was planned."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path
    digest: str | None = None


class ReplayConfig(BaseModel):
    """Options of the model in an experiment file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[From, BeforeValidator(_folder)] = Field(alias="from")
    match: Literal["normal", "exact", "order"] = "normal"


def read_config(options: dict[str, object]) -> ReplayConfig:
    """Raises ConfigError for an unknown or wrong option."""
    try:
        return ReplayConfig.model_validate(options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(["model", *map(str, first["loc"])])
        raise ConfigError(f"{where}: {first['msg']}", hint="replay takes `from` (a folder) and `match`") from error


def recordings(folder: Path) -> dict[str, Path]:
    """File stem -> file, of every session recorded in a folder. Raises ConfigError when there is none."""
    found = {path.name.removesuffix(SUFFIX): path for path in sorted(folder.expanduser().glob(f"*{SUFFIX}"))}
    if not found:
        missing = "" if folder.exists() else "; there is no such folder"
        raise ConfigError(
            f"model.from: no recording (*{SUFFIX}) in {folder}{missing}",
            hint="`record: DIR` beside any model's name makes one",
        )
    for path in found.values():
        if hint := lfs_hint(path):
            raise ConfigError(f"model.from: {path} is not a recording", hint=hint)
    return found


def content_digest(folder: Path) -> str:
    """SHA-256 over names and contents of a folder's recordings. Raises ConfigError."""
    lines = [f"{file_digest(path)} {stem}\n" for stem, path in recordings(folder).items()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def find(files: dict[str, Path], session: str) -> Path:
    """The recording of a session, else the only one of the same run and instance in another arm. Raises ModelError."""
    stem = file_stem(session)
    if stem in files:
        return files[stem]
    _, _, rest = session.partition(".")
    others = [path for name, path in files.items() if rest and name.partition(".")[2] == file_stem(rest)]
    if len(others) == 1:
        return others[0]
    if others:
        problem = f"several arms have one: {', '.join(sorted(path.stem for path in others)[:5])}"
    else:
        near = difflib.get_close_matches(stem, files, n=3, cutoff=0.5)
        problem = f"near ones: {', '.join(near)}" if near else f"there are {len(files)}, none near it"
    error = ModelError(f"replay: no recording of {session}; {problem}")
    error.retryable = False
    raise error
