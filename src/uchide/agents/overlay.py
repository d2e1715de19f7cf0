"""Options laid over a declaration."""

from collections.abc import Mapping
from typing import Any


def overlay(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over`, section by section."""
    both = {key for key in over if isinstance(base.get(key), Mapping) and isinstance(over[key], Mapping)}
    return {**base, **over, **{key: overlay(base[key], over[key]) for key in both}}
