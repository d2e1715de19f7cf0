"""The client: sends a request until it is answered, or until it is clear that it will not be."""

import asyncio
import logging
import re
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from uchide.errors import ContextOverflow, ModelError, RateLimited
from uchide.llm.openai import faults
from uchide.llm.openai.catalogue import Catalogue
from uchide.llm.openai.config import OpenAIConfig
from uchide.llm.openai.effort import Effort, total
from uchide.llm.openai.faults import Fault, Place
from uchide.llm.openai.servers import Server, Servers
from uchide.llm.openai.wire import MalformedBody, Parsed, body_of, parse
from uchide.llm.spend import Meter, Spent
from uchide.protocols import ChatReply, ChatRequest

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai import AsyncOpenAI

_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
_LATER = "the row is marked as a failure of infrastructure and made again when you run the same command again"
_RUNNING = "is the server running, and is model.base_url right?"
_LOG = logging.getLogger(__name__)


class OpenAIChat:
    """A chat model behind one or several servers. One object serves all rollouts of a job."""

    tools: tuple[str, ...] = ()

    def __init__(self, config: OpenAIConfig, meter: Meter | None = None) -> None:
        self.name = f"openai/{config.model}"
        self._config = config
        self._key = config.key()
        self._meter = meter
        self._servers = Servers(config)
        self._clients: dict[str, AsyncOpenAI] = {}
        self._catalogue = Catalogue(config.model)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """One answer, after as many tries as `retry` allows.

        Raises ContextOverflow, RateLimited, ModelError (see `docs/models.md`) and SpendLimit.
        """
        body = body_of(request, self._config)
        effort = Effort()
        while True:
            server = self._servers.choose(request.group)
            with request.paused():
                if await self._must_wait(server, effort):
                    continue
            queued = time.monotonic()
            async with AsyncExitStack() as lane:
                with request.paused():
                    await lane.enter_async_context(server.lanes.slot())
                effort.leave_out(time.monotonic() - queued)
                if self._wait_s(server):
                    continue  # refused while this one stood in the queue
                started = time.monotonic()
                result = await self._send(server, body, len(request.messages), effort)
            if isinstance(result, Parsed):
                server.succeeded(started)
                server.served = True
                return self._reply(result, effort)
            if result.kind != "connect":
                effort.leave_out(time.monotonic() - started)
            server.failed(result, started)
            self._count(result, effort)

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        """`context_tokens`, else what the first server that answers says of the model."""
        del place, role
        if self._config.context_tokens is not None:
            return self._config.context_tokens
        for server in self._servers.all:
            if await self._catalogue.known(self._client(server.url)):
                break
        return self._catalogue.window

    async def aclose(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _must_wait(self, server: Server, effort: Effort) -> bool:
        """Wait for a resting server; False when it may be asked now. Raises RateLimited when the server wants a longer
        pause than the configuration puts up with."""
        busy, allowed = server.pause.left_s(), self._config.retry.seconds
        if busy > allowed and server.may_probe():
            busy = server.pause.left_s()
        patience = allowed - effort.failing_s
        if busy and server.given_up():
            raise RateLimited(f"{self._place(server)} still refuses (429) after {_seconds(allowed)}", hint=_LATER)
        if busy and busy > patience:
            wish = f"{self._place(server)} asks to wait for another {busy:.0f} s (429)"
            raise RateLimited(f"{wish}, more than {_seconds(allowed)}", hint=_LATER)
        wait = max(self._wait_s(server), effort.resumes - time.monotonic())
        if wait > 0:
            await asyncio.sleep(wait)
        return wait > 0

    def _wait_s(self, server: Server) -> float:
        """Seconds until a server may be asked. Servers that are given up are tried once by every new request."""
        return max(server.pause.left_s(), 0.0 if self._servers.given_up() else server.resting_s())

    def _count(self, fault: Fault, effort: Effort) -> None:
        """After a failure: raises when there is no point in another try."""
        retry = self._config.retry
        effort.since = time.monotonic() if effort.since is None else effort.since
        if fault.kind in {"server", "answer"}:
            effort.resumes = time.monotonic() + retry.pause_s(effort.bad)
            effort.bad += 1
        over = effort.failing_s >= retry.seconds or self._servers.given_up()
        if not over and effort.bad < retry.attempts:
            _LOG.warning("%s; trying again", fault.message)
            return
        if fault.kind == "busy":
            raise RateLimited(f"{fault.message}; it has refused for {_seconds(retry.seconds)}", hint=_LATER)
        raise ModelError(f"{fault.message}; given up (model.retry)", hint=fault.hint)

    async def _send(self, server: Server, body: dict[str, Any], turn: int, effort: Effort) -> Parsed | Fault:
        """One request, metered. Raises what no other try can mend."""
        if self._meter is not None:
            self._meter.check()
        start, usage = time.time(), None
        try:
            result = await self._exchange(server, body, turn)
            if isinstance(result, Parsed):
                usage = result.usage
                if result.finish_reason is None:
                    effort.wasted = total(effort.wasted, usage)
                    about = f"{self._place(server)} cut its answer off (finish_reason {result.ending!r})"
                    return Fault("answer", about)
            return result
        finally:
            if self._meter is not None:
                self._meter.add(Spent(server.url, start, time.time(), usage, self._config.gpus or 0.0))

    async def _exchange(self, server: Server, body: dict[str, Any], turn: int) -> Parsed | Fault:
        import openai

        place, started = self._place(server), time.monotonic()
        try:
            completions = self._client(server.url).chat.completions.with_raw_response
            # As `extra_body`, since the package would check every message of every request: 80 ms of CPU for 400.
            async with asyncio.timeout(self._config.timeout_s):
                raw = await completions.create(model=self._config.model, messages=[], extra_body=body)
            return parse(raw.text, self._config, turn)
        except TimeoutError as error:
            return self._timed_out(place, error)
        except MalformedBody as error:
            if error.error is not None:
                return faults.of_error_object(place, error.error)
            return Fault("answer", f"{place} gave a malformed answer: {error}", hint=_RUNNING)
        except openai.APIStatusError as error:
            return await self._refused(server, error, started)
        except openai.APITimeoutError as error:
            return self._timed_out(place, error)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            why = f"{type(cause).__name__}: {cause}"
            if type(cause).__name__ == "ConnectError":
                return Fault("connect", f"{place} cannot be reached: {why}", hint=_RUNNING)
            return Fault("answer", f"{place} broke the connection off: {why}", hint=_RUNNING)

    def _timed_out(self, place: Place, error: Exception) -> Fault:
        """Connecting may be tried again. An answer that does not come is not asked for again: the server may still be
        at work on it, and would be on both."""
        if type(error.__cause__).__name__ in {"ConnectTimeout", "PoolTimeout"}:
            about = f"{place} cannot be reached within {self._config.connect_timeout_s:g} s"
            return Fault("connect", about, hint=_RUNNING)
        raise ModelError(
            f"{place} gave no answer in {self._config.timeout_s:g} s (model.timeout_s); it is not asked again",
            hint="raise model.timeout_s, or ask for shorter answers (max_tokens of the agent's sampling)",
        )

    async def _refused(self, server: Server, error: "openai.APIStatusError", started: float) -> Fault:
        try:
            return faults.of_status(self._place(server), error.status_code, error.body, error.response.headers)
        except ContextOverflow:
            server.succeeded(started)
            raise
        except ModelError as found:
            server.succeeded(started)  # it is up, and right
            # Refused by a server that answers others: this conversation is at fault, not the configuration.
            found.retryable = server.served and error.status_code in {400, 422}
            about_model = error.status_code == 404 or (error.status_code == 400 and _MODEL.search(error.message))
            if about_model and await self._catalogue.known(self._client(server.url)):
                names = self._catalogue.names
                if self._config.model not in names:
                    found.hint = f"models of this server: {', '.join(names[:20])}"
            raise

    def _reply(self, parsed: Parsed, effort: Effort) -> ChatReply:
        if parsed.usage is None and self._meter is not None and self._meter.needs_usage():
            raise faults.permanent(
                f"{self.name}: the server counts no tokens (its answers have no usage)",
                "policy.spend.usd and policy.spend.tokens cannot be kept with it: take them out",
            )
        usage = total(effort.wasted, parsed.usage)
        return ChatReply(parsed.text, usage, parsed.finish_reason or "stop", parsed.model, parsed.tool_calls)

    def _place(self, server: Server) -> Place:
        return Place(server.url, self._config.model, self._config.api_key_env)

    def _client(self, url: str) -> "AsyncOpenAI":
        if url not in self._clients:
            import openai

            timeout = openai.Timeout(self._config.timeout_s, connect=self._config.connect_timeout_s)
            http = openai.DefaultAsyncHttpxClient(timeout=timeout, event_hooks={"response": [_read_as_utf8]})
            self._clients[url] = openai.AsyncOpenAI(
                base_url=url, api_key=self._key, timeout=timeout, max_retries=0, http_client=http
            )
        return self._clients[url]


async def _read_as_utf8(response: "httpx2.Response") -> None:
    """JSON is UTF-8, whatever charset a server names: what is none becomes replacement characters."""
    response.encoding = "utf-8"


def _seconds(allowed: float) -> str:
    return f"{allowed:g} s (model.retry.seconds)"
