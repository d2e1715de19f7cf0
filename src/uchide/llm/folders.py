"""Folders that a model's configuration names: relative to the checkout; what is replayed is known by its content."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_KEYS = {"replay": "from", "inbox": "dir"}
"""Model -> its option that names a folder. `record` is every model's."""


def located(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """`config` with its folders below `root`, where they are not absolute."""

    def locate(name: str, given: Any) -> Any:  # noqa: ANN401 (what a user wrote)
        del name
        if isinstance(given, str):
            return str(root / Path(given).expanduser())
        if isinstance(given, Mapping) and isinstance(given.get("path"), str):
            return {**given, "path": str(root / Path(given["path"]).expanduser())}
        return given

    changed = _changed(config, locate)
    if "record" in changed:
        changed["record"] = locate("record", changed["record"])
    return changed


def with_files(config: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """`config` with every folder of recordings by name and content: what is replayed is part of the key of what is made
    of it. Raises ConfigError where there is no recording."""

    def digest(name: str, given: Any) -> Any:  # noqa: ANN401
        if name != "replay" or not isinstance(given, str):
            return given
        from uchide.llm.replay.source import content_digest

        return {"path": given, "digest": content_digest(root / Path(given).expanduser())}

    return _changed(config, digest)


def _changed(config: Mapping[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """`config`, and what it overrides per phase or role, with the folder of each model changed."""
    base = _one(config, config.get("name"), change)
    if isinstance(overrides := config.get("for"), Mapping):
        base["for"] = {
            key: _one(value, value.get("name", config.get("name")), change) if isinstance(value, Mapping) else value
            for key, value in overrides.items()
        }
    return base


def _one(options: Mapping[str, Any], name: object, change: Callable[[str, Any], Any]) -> dict[str, Any]:
    key = _KEYS.get(str(name))
    return {**options, key: change(str(name), options[key])} if key and key in options else dict(options)
