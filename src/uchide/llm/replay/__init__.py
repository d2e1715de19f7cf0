"""`replay`: what a model has said (`record: DIR`), said again byte for byte.

`docs/inbox.md` tells how it is used.
"""

from collections.abc import Mapping
from typing import Any

from uchide.llm.replay.model import Replay
from uchide.llm.replay.source import content_digest, read_config


def create(options: Mapping[str, Any]) -> Replay:
    """The model with the options of an experiment file. Raises ConfigError, also where there is no recording."""
    return Replay(read_config(dict(options)))


__all__ = ["Replay", "content_digest", "create"]
