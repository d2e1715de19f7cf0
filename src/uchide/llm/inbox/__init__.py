"""`inbox`: requests and answers are files, so that a person, a script or another service plays the model.

The protocol is `readme.md`, which is put into the folder; `docs/inbox.md` tells how it is used.
"""

from collections.abc import Mapping
from typing import Any

from uchide.llm.inbox.config import InboxConfig
from uchide.llm.inbox.model import Inbox


def create(options: Mapping[str, Any]) -> Inbox:
    """The model with the options of an experiment file. Raises ConfigError. Touches no file before a request."""
    return Inbox(InboxConfig.read(options))


__all__ = ["Inbox", "InboxConfig", "create"]
