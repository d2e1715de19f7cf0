"""Chat models by name, and what an experiment may ask of any of them: others per phase or role (`for`), and a record of
all that is said (`record`)."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from uchide.errors import ConfigError
from uchide.llm.folders import located, with_files
from uchide.llm.routing import by_place, configs_of
from uchide.llm.routing import keyed as _keyed
from uchide.llm.spend import Ledger, Meter, SpendCaps, Spent, refuse_unknown_spend
from uchide.protocols import ChatModel

_MODELS = {
    "mutator": "uchide.llm.mutator",
    "openai": "uchide.llm.openai",
    "replay": "uchide.llm.replay",
    "inbox": "uchide.llm.inbox",
}
"""Name -> module with a function `create(options) -> ChatModel`; imported only when the model is used. Where the module
says METERED, `create(options, meter)`: the model costs money, tokens or GPU time and reports them to the meter."""

_SETTINGS = {
    "openai": frozenset(
        {"base_url", "api_key_env", "timeout_s", "connect_timeout_s", "concurrency", "retry", "gpus"},
    ),
}
"""Options that change no answer: where a model runs and how patiently it is asked."""


def names() -> tuple[str, ...]:
    """Names that `create` knows."""
    return tuple(_MODELS)


def create(config: Mapping[str, Any], meter: Meter | None = None, root: Path = Path()) -> ChatModel:
    """The chat model that `config["name"]` names; its other keys are that model's options, except for two that every
    model takes: `for` (phase, role or PHASE.role -> options that differ there) and `record` (a folder). Folders are
    relative to `root`.

    Raises ConfigError for an unknown name or option. Nothing is sent anywhere yet.
    """
    config = located(config, root)
    folder = config.pop("record", None)
    made: list[tuple[dict[str, Any], ChatModel]] = []
    models: dict[str, ChatModel] = {}
    for key, options in configs_of(config).items():
        same = next((model for known, model in made if known == options), None)
        models[key] = same or _create(options, meter, f"model.for.{key}: " if key else "")
        made.append((options, models[key]))
    model = by_place(models)
    return model if folder is None else _recorded(model, folder)


def keyed(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of `config` decides what is answered, so that rows made with it stay good when a server moves."""
    return _keyed(config, _SETTINGS)


def refuse_uncountable(config: Mapping[str, Any], caps: SpendCaps) -> None:
    """Raises ConfigError when a cap cannot be kept, since a model of `config` has no price or no number of GPUs."""
    for key, options in configs_of(config).items():
        if options.get("name") in _MODELS and getattr(_module(options["name"]), "METERED", False):
            refuse_unknown_spend(options, caps, f"model.for.{key}" if key else "model")


def _create(config: Mapping[str, Any], meter: Meter | None, where: str) -> ChatModel:
    options = dict(config)
    name = options.pop("name", None)
    if name not in _MODELS:
        close = difflib.get_close_matches(str(name), _MODELS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known models: {', '.join(_MODELS)}."
        raise ConfigError(f"{where}model.name: there is no model {name!r}", hint=hint)
    module = _module(name)
    try:
        model: ChatModel = (
            module.create(options, meter) if getattr(module, "METERED", False) else module.create(options)
        )
    except ConfigError as error:
        raise ConfigError(f"{where}{error.message}", hint=error.hint) from error
    return model


def _module(name: str) -> ModuleType:
    return import_module(_MODELS[name])


def _recorded(model: ChatModel, folder: object) -> ChatModel:
    if not isinstance(folder, str) or not folder:
        raise ConfigError("model.record: the path of a folder is wanted")
    recorder: ChatModel = import_module("uchide.llm.recording").Recorder(model, Path(folder))
    return recorder


__all__ = ["Ledger", "Meter", "SpendCaps", "Spent", "create", "keyed", "names", "refuse_uncountable", "with_files"]
