"""`openai`: chat models behind any server that speaks the OpenAI API (vLLM, llama.cpp, SGLang, hosted ones).

What can go wrong on the way and what becomes of it is one table in `docs/models.md`. `config` says what a user may set,
`wire` translates requests and replies, `faults` sorts what went wrong, `servers` keeps who is up and how fast it may be
asked, `client` sends.
"""

from collections.abc import Mapping
from typing import Any

from uchide.llm.openai.client import OpenAIChat
from uchide.llm.openai.config import OpenAIConfig
from uchide.llm.spend import Meter

METERED = True
"""It reports every request to a meter itself, also those that came to nothing."""


def create(options: Mapping[str, Any], meter: Meter | None = None) -> OpenAIChat:
    """The model with the options of an experiment file. Nothing goes over the network before the first request.

    Raises ConfigError for an unknown or wrong option, or an environment variable that is not set.
    """
    return OpenAIChat(OpenAIConfig.read(options), meter)


__all__ = ["METERED", "OpenAIChat", "OpenAIConfig", "create"]
