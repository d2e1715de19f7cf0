"""A server that speaks the OpenAI API over real HTTP and fails as it is told: our own double of every bad day.

A script says, request by request, how to answer; when it is over, every request gets a good answer. The server runs in
a thread of its own, so that a rollout and its client live in an event loop of theirs.
"""

import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["Asked"], "Step"]


@dataclass(frozen=True)
class Asked:
    """One request for a completion, as it arrived."""

    number: int
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    in_flight: int = 1
    """Requests that the server has at this moment, this one included."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]


@dataclass(frozen=True)
class Step:
    """One answer. `reset` breaks the connection off after half the body; `dies` closes the server for good."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    reset: bool = False
    dies: bool = False

    def data(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


def completion(
    text: str | None = "ok",
    finish_reason: str | None = "stop",
    *,
    prompt: int = 100,
    output: int = 10,
    cached: int | None = None,
    **message: Any,
) -> dict[str, Any]:
    """The body of a good answer."""
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached is not None else {}
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice],
            "usage": {**usage, **details}}  # fmt: skip


def good(text: str | None = "ok", finish_reason: str | None = "stop", **more: Any) -> Step:
    return Step(body=completion(text, finish_reason, **more))


def tool_call(
    arguments: Any, finish_reason: str = "tool_calls", name: str = "bash", id: str = "c1", **more: Any
) -> Step:
    """An answer that calls a tool."""
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return good(None, finish_reason, tool_calls=[call], **more)


def error(status: int, message: str, *, headers: dict[str, str] | None = None, **fields: Any) -> Step:
    return Step(status, {"error": {"message": message, **fields}}, headers or {})


def busy(retry_after: str | None = None) -> Step:
    """429, with or without a wish."""
    return error(429, "slow down", headers={"Retry-After": retry_after} if retry_after else None, type="rate_limit")


RESET = Step(body=completion("half of this never arrives" * 40), reset=True)
ABORT = good("half an ans", "abort")
BROKEN = error(500, "EngineCore encountered an issue", type="InternalServerError", code=500)
DEATH = Step(body=completion(), reset=True, dies=True)
UNKNOWN_MODEL = error(404, "The model `nope` does not exist. Valid aliases: tiny.", type="NotFoundError", param="model")
TOO_LARGE = Step(413, "<html>413 Request Entity Too Large</html>")

OVERFLOWS: dict[str, Step] = {
    "vllm": error(
        400,
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, "
        "which exceeds this limit even without any output tokens. (parameter=input_tokens, value=4097)",
        type="BadRequestError",
        param="input_tokens",
        code=400,
    ),
    "vllm-answer": error(
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 "
        "tokens and your request has 1000 input tokens (4000 > 4096 - 1000). (parameter=max_tokens, value=4000)",
        type="BadRequestError",
        param="max_tokens",
        code=400,
    ),
    "vllm-param-only": error(400, "too many", type="BadRequestError", param="input_tokens", code=400),
    "openai": error(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        type="invalid_request_error",
        param="messages",
        code="context_length_exceeded",
    ),
    "code-only": error(400, "no", code="context_length_exceeded"),
    "llama.cpp": error(
        400,
        "the request exceeds the available context size, try increasing it",
        type="exceed_context_size_error",
        code=400,
        n_prompt_tokens=5000,
        n_ctx=4096,
    ),
    "sglang": error(400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", code=400),
    "sglang-sum": error(
        400, "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested 5000."
    ),
    "tgi": Step(
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` "
            "tokens and 200 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    "anthropic": error(400, "prompt is too long: 215000 tokens > 200000 maximum", type="invalid_request_error"),
    "anthropic-sum": error(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    "gemini": error(
        400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", code=400
    ),
    "mistral": Step(
        400, {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}
    ),
    "proxy": TOO_LARGE,
}
"""A request that is too long, as each kind of server says it."""


class FaultServer:
    """The server. `asked` are the requests for completions so far."""

    def __init__(self, steps: Iterable[Step | Reply], models: list[dict[str, Any]] | None, port: int = 0) -> None:
        self._steps: Iterator[Step | Reply] = iter(steps)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.models = models if models is not None else [{"id": "tiny", "max_model_len": 4096}]
        self.asked: list[Asked] = []
        self.others: list[str] = []
        """Paths of all other requests."""
        self.connections: set[socket.socket] = set()
        self.in_flight = 0
        self.most_in_flight = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *steps: Step | Reply) -> None:
        """From now on, answer like this."""
        with self._lock:
            self._steps = iter(steps)

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Step:
        with self._lock:
            self.in_flight += 1
            asked = Asked(next(self._numbers), body, headers, time.monotonic(), self.in_flight)
            self.asked.append(asked)
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            step = next(self._steps, None)
        if step is None:
            return good()
        return step if isinstance(step, Step) else step(asked)

    def left(self) -> None:
        with self._lock:
            self.in_flight -= 1

    def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
        with self._lock:
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def die(self) -> None:
        """As `close`, from inside a request."""
        self._http.socket.close()
        threading.Thread(target=self.close, daemon=True).start()


@contextmanager
def serving(*steps: Step | Reply, models: list[dict[str, Any]] | None = None, port: int = 0) -> Iterator[FaultServer]:
    """A server with this script, on a port of its own unless one is given (that of a server which died)."""
    server = FaultServer(steps, models, port)
    try:
        yield server
    finally:
        server.close()


def _handler(server: FaultServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def setup(self) -> None:
            super().setup()
            server.connections.add(self.connection)

        def do_GET(self) -> None:
            server.others.append(self.path)
            if self.path == "/v1/models":
                self._send(Step(body={"object": "list", "data": server.models}))
            else:
                self._send(Step(404, "no such page"))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            step = server.take(body, {key.lower(): value for key, value in self.headers.items()})
            try:
                time.sleep(step.delay_s)
                self._send(step)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client went away
            finally:
                server.left()
                if step.dies:
                    server.die()

        def _send(self, step: Step) -> None:
            data = step.data()
            self.send_response(step.status)
            self.send_header("Content-Type", "application/json" if not isinstance(step.body, str) else "text/html")
            self.send_header("Content-Length", str(len(data)))
            for name, value in step.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if step.reset else data)
            self.wfile.flush()
            if step.reset:
                reset = struct.pack("ii", 1, 0)  # no lingering: the peer gets RST, not FIN
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                self.connection.close()
                self.close_connection = True

    return Handler
