"""A runtime of the user's own, by content: the YAML file that `agent.spec` names, the prompts and skills beside it, and
the folder of skills that `agent.skills` names.

They are read once, when an experiment is planned: so they are part of the key of what they make, and an edit while
rollouts run changes nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from uchide.errors import ConfigError


class OwnSpec(BaseModel):
    """A file, the templates in `prompts/` beside it by name relative to that folder, and the skills in `skills/` by
    path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    text: str
    prompts: dict[str, str] = {}
    skills: dict[str, str] = {}


class OwnSkills(BaseModel):
    """A folder of skills, by path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: dict[str, str]


def own_spec(given: object, root: Path = Path()) -> OwnSpec:
    """What `agent.spec` stands for: a path, relative to `root`, or what was read of one. Raises ConfigError."""
    if isinstance(given, str | Path):
        path = root / Path(given).expanduser()
        folder = path.parent / "prompts"
        templates = sorted(item for item in folder.rglob("*") if item.is_file())
        prompts = {item.relative_to(folder).as_posix(): _text("spec", item) for item in templates}
        skills = dict(_skills("spec", path.parent / "skills", Path(given).parent / "skills"))
        return OwnSpec(file=str(given), text=_text("spec", path), prompts=prompts, skills=skills)
    try:
        return OwnSpec.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"agent.spec: the path of a YAML file is expected, not {given!r}") from error


def own_skills(given: object, root: Path = Path()) -> OwnSkills:
    """The same for `agent.skills`, a folder with at least one skill."""
    if isinstance(given, str | Path):
        folder = root / Path(given).expanduser()
        files = dict(_skills("skills", folder, Path(given)))
        if not files:
            raise ConfigError(f"agent.skills: there is no skill (*.md) in {folder}", hint="name a folder that has some")
        return OwnSkills(files=files)
    try:
        return OwnSkills.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"agent.skills: the path of a folder is expected, not {given!r}") from error


def with_files(options: dict[str, Any], root: Path) -> dict[str, Any]:
    """The same options with `spec` and `skills` by content. Raises ConfigError."""
    read = dict(options)
    if options.get("spec"):
        read["spec"] = own_spec(options["spec"], root).model_dump()
    if options.get("skills"):
        read["skills"] = own_skills(options["skills"], root).model_dump()
    return read


def _skills(option: str, folder: Path, shown: Path) -> Iterator[tuple[str, str]]:
    """The Markdown files of a folder, by name, under the path that the user wrote."""
    for item in sorted(folder.glob("*.md")):
        yield (shown / item.name).as_posix(), _text(option, item)


def _text(option: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"agent.{option}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"agent.{option}: {path} is not UTF-8 (byte {error.start})", hint="save it as UTF-8"
        ) from error
