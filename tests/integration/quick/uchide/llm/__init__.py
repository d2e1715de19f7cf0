"""Quick engine: no model."""

from typing import Any


def create(config: dict[str, Any]) -> None:
    return None
