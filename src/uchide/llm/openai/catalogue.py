"""What a server says about its models (`GET /models`): their names, and how long a request may be."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from uchide.llm.openai.wire import loads

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_TIMEOUT_S = 10.0
_AGAIN_S = 60.0
_WINDOW = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")
"""vLLM and SGLang, OpenRouter, Groq, Mistral, llama.cpp (in `meta`)."""


class Catalogue:
    """Asked once; a server that cannot say now is asked again a minute later, by the first who wants to know."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._asked = False
        self._failed: dict[str, float] = {}
        """Address -> when it could not say (monotonic)."""
        self._one = asyncio.Lock()
        self.names: tuple[str, ...] = ()
        self.window: int | None = None

    async def known(self, client: "AsyncOpenAI") -> bool:
        """Ask, unless that was done. False when the server does not say."""
        url = str(client.base_url)
        async with self._one:
            if self._asked or time.monotonic() - self._failed.get(url, float("-inf")) < _AGAIN_S:
                return self._asked
            entries = await _entries(client)
            if entries is None:
                self._failed[url] = time.monotonic()
                return False
            self._asked = True
            self.names = tuple(entry["id"] for entry in entries if isinstance(entry.get("id"), str))
            self.window = _window(entries, self._model)
        return True


async def _entries(client: "AsyncOpenAI") -> list[Mapping[str, Any]] | None:
    import openai

    try:
        raw = await client.models.with_raw_response.list(timeout=_TIMEOUT_S)
        data = loads(raw.text)
    except (openai.OpenAIError, ValueError):
        return None
    entries = data.get("data") if isinstance(data, dict) else data
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else None


def _window(entries: list[Mapping[str, Any]], model: str) -> int | None:
    """Of the model itself, else (an adapter) of its parent, else of the only model there is."""
    by_name = {entry["id"]: entry for entry in entries if isinstance(entry.get("id"), str)}
    entry = by_name.get(model)
    if entry is None:
        return _tokens(entries[0]) if len(entries) == 1 else None
    parent = entry.get("parent")
    return _tokens(entry) or _tokens(by_name.get(parent, {}) if isinstance(parent, str) else {})


def _tokens(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    for source in (entry, meta if isinstance(meta, dict) else {}):
        for key in _WINDOW:
            value = source.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None
