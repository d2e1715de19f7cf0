"""Making clients for a fault server, and asking them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from support.fault_server import FaultServer
from uchide import llm
from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message, Sampling

QUICK = {"base_s": 0.01, "max_s": 0.05, "seconds": 5.0}
"""Pauses that a test can wait for."""


def options(*servers: FaultServer | str, retry: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    urls = [server if isinstance(server, str) else server.url for server in servers]
    return {"name": "openai", "base_url": urls, "model": "tiny", "retry": QUICK | (retry or {}), **more}


@asynccontextmanager
async def client(*servers: FaultServer | str, meter: Any = None, **more: Any) -> AsyncIterator[ChatModel]:
    model = llm.create(options(*servers, **more), meter)
    try:
        yield model
    finally:
        await model.aclose()


def request(text: str = "hi", **more: Any) -> ChatRequest:
    sampling = more.pop("sampling", Sampling(seed=7))
    return ChatRequest(more.pop("messages", [Message("user", text)]), sampling, group=more.pop("group", "g"), **more)


async def ask(model: ChatModel, text: str = "hi", **more: Any) -> ChatReply:
    return await model.complete(request(text, **more))


async def until(condition: Callable[[], object]) -> None:
    """Wait until something has happened elsewhere; ten seconds at most."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (what is waited for happens in another thread)
            await asyncio.sleep(0.005)
