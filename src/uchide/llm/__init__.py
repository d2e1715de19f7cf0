"""Chat models by name."""

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from uchide.errors import ConfigError
from uchide.protocols import ChatModel

_MODELS = {"mutator": "uchide.llm.mutator"}
"""Name -> module with a function `create(options) -> ChatModel`; imported only when the model is used."""


def names() -> tuple[str, ...]:
    """Names that `create` knows."""
    return tuple(_MODELS)


def create(config: Mapping[str, Any]) -> ChatModel:
    """The chat model that `config["name"]` names; its other keys are that model's options.

    Raises ConfigError for an unknown name or option.
    """
    options = dict(config)
    name = options.pop("name", None)
    if name not in _MODELS:
        close = difflib.get_close_matches(str(name), _MODELS, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known models: {', '.join(_MODELS)}."
        raise ConfigError(f"model.name: there is no model {name!r}", hint=hint)
    make: Callable[[Mapping[str, Any]], ChatModel] = import_module(_MODELS[name]).create
    return make(options)
