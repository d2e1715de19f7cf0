"""One chat model out of several: which of them answers is a matter of phase or node, and of role."""

from collections.abc import Mapping
from typing import Any

from uchide.errors import ConfigError
from uchide.protocols import ChatModel, ChatReply, ChatRequest

AGENT = "agent"
"""The role of an ordinary turn."""


def configs_of(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Key of `for` -> whole configuration, overrides laid over the base; `""` is the base itself.

    Raises ConfigError for a `for` that is no mapping of mappings.
    """
    base = {key: value for key, value in config.items() if key != "for"}
    overrides = config.get("for") or {}
    if not isinstance(overrides, Mapping):
        raise ConfigError("model.for: a mapping is wanted: phase, role or PHASE.role, then what differs there")
    return {"": base, **{str(key): _merged(base, override, str(key)) for key, override in overrides.items()}}


def keyed(config: Mapping[str, Any], settings: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """`config`, and what it overrides, without the options that change no answer: `settings` by model, and `record`."""

    def kept(options: Mapping[str, Any], name: object) -> dict[str, Any]:
        left_out = settings.get(str(name), frozenset()) | {"record"}
        return {key: value for key, value in options.items() if key not in left_out}

    base = kept(config, config.get("name"))
    if isinstance(overrides := config.get("for"), Mapping):
        base["for"] = {
            key: kept(value, value.get("name", config.get("name"))) if isinstance(value, Mapping) else value
            for key, value in overrides.items()
        }
    return base


def _merged(base: Mapping[str, Any], override: object, key: str) -> dict[str, Any]:
    place, dot, role = key.partition(".")
    if not place or (dot and not role) or "." in role or not all(char.isalnum() or char in "_-." for char in key):
        raise ConfigError(f"model.for.{key}: not a phase, a role or PHASE.role", hint="for example CODE_FIX.formatter")
    if isinstance(override, str):
        override = {"name": override}
    if not isinstance(override, Mapping):
        raise ConfigError(f"model.for.{key}: a mapping of options is wanted, for example {{model: NAME}}")
    if inner := {"for", "record"} & set(override):
        raise ConfigError(f"model.for.{key}: {min(inner)!r} belongs to the model as a whole, not in here")
    fresh = override.get("name", base.get("name")) != base.get("name")
    return dict(override) if fresh else {**base, **override}


def by_place(models: Mapping[str, ChatModel]) -> ChatModel:
    """A chat model that hands every request to the model of its `PHASE.role`, its role or its phase, in this order,
    else to the base (`""`). Alone, the base itself."""
    return models[""] if len(models) == 1 else Routed(models)


class Routed:
    """The models by key."""

    def __init__(self, models: Mapping[str, ChatModel]) -> None:
        self._models = dict(models)
        distinct = list({id(model): model for model in models.values()}.values())
        self._distinct: list[ChatModel] = distinct
        self.name = "+".join(dict.fromkeys(model.name for model in distinct))
        self.tools = tuple(dict.fromkeys(tool for model in distinct for tool in model.tools))

    def chosen(self, place: str, role: str) -> ChatModel:
        """The model for a place and a role."""
        for key in (f"{place}.{role}", role, place):
            if key in self._models:
                return self._models[key]
        return self._models[""]

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await self.chosen(request.place, request.role).complete(request)

    async def window(self, place: str = "", role: str = AGENT) -> int | None:
        return await self.chosen(place, role).window(place, role)

    async def aclose(self) -> None:
        for model in self._distinct:
            await model.aclose()
