"""A runtime of the user's own: the YAML file that `agent.spec` names, and the prompts beside it, by content.

They are read once, when an experiment is planned: so they are part of the key of what they make, and an edit while
rollouts run changes nothing.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from uchide.errors import ConfigError


class OwnSpec(BaseModel):
    """A file and the templates in `prompts/` beside it, by name relative to that folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    text: str
    prompts: dict[str, str] = {}


def own_spec(given: object, root: Path = Path()) -> OwnSpec:
    """What `agent.spec` stands for: a path, relative to `root`, or what was read of one. Raises ConfigError."""
    if isinstance(given, str | Path):
        path = root / Path(given).expanduser()
        folder = path.parent / "prompts"
        templates = sorted(item for item in folder.rglob("*") if item.is_file())
        prompts = {item.relative_to(folder).as_posix(): _text(item) for item in templates}
        return OwnSpec(file=str(given), text=_text(path), prompts=prompts)
    try:
        return OwnSpec.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"agent.spec: the path of a YAML file is expected, not {given!r}") from error


def with_files(options: dict[str, Any], root: Path) -> dict[str, Any]:
    """The same options with `spec` by content. Raises ConfigError."""
    return {**options, "spec": own_spec(options["spec"], root).model_dump()} if options.get("spec") else options


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"agent.spec: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"agent.spec: {path} is not UTF-8 (byte {error.start})", hint="save it as UTF-8") from error
