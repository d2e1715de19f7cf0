"""What is wrong with a runtime's declaration, in words: where it was written, and the key or name that was meant."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from uchide.errors import ConfigError

_OPTIONS = ("spec", "skills", "name")
"""Keys of the agent in an experiment file that its spec does not have."""


def meant(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` where a known name is close, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def fault(error: ValidationError, in_file: ValidationError | None, where: str, model: type[BaseModel]) -> ConfigError:
    """The first fault of a spec `model` made of the file `where` and the agent's options over it; `in_file`: what is
    wrong with the file alone."""
    first = error.errors(include_url=False)[0]
    of_file = [(item["loc"], item["msg"]) for item in in_file.errors(include_url=False)] if in_file else []
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    is_option = (first["loc"], first["msg"]) not in of_file
    if first["type"] == "extra_forbidden":
        *above, key = map(str, first["loc"])
        known = [*keys(model, above), *(_OPTIONS if is_option and not above else ())]
        message = f"there is no such key{meant(key, known) or ', known: ' + ', '.join(known)}"
    said = f"{place + ': ' if place else ''}{message}"
    if not is_option:
        return ConfigError(f"{where}: {said}", hint="Its keys: docs/phases-agent.md.")
    return ConfigError(
        f"agent.{said}", hint="An option of the agent in the experiment file; its keys: docs/phases-agent.md."
    )


def keys(model: type[BaseModel], above: Iterable[str]) -> list[str]:
    """Keys of the mapping at the place `above`, as a file has them."""
    here: Any = model
    for part in above:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = _fields(here).get(part)
        else:
            here = next(iter(get_args(here)[1:]), None)
    return list(_fields(here)) if isinstance(here, type) and issubclass(here, BaseModel) else []


def _fields(model: type[BaseModel]) -> Mapping[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
