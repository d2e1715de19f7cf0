"""The model itself: gives recorded answers, each role's in its own order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uchide.errors import ConfigError, ModelError
from uchide.llm.fingerprint import Print, Prints, request_key
from uchide.llm.replay.divergence import first_difference
from uchide.llm.replay.source import ReplayConfig, content_digest, find, recordings
from uchide.llm.resuming import Asked, of_session, place_of
from uchide.llm.transcript import Line, read
from uchide.protocols import ChatReply, ChatRequest
from uchide.redact import Redactor, redactor


class Replay:
    """A chat model that says what another one has said."""

    def __init__(self, config: ReplayConfig) -> None:
        """Raises ConfigError when there is no recording, or another one than was planned with."""
        self._config = config
        self._files = recordings(config.source.path)
        if config.source.digest not in (None, content_digest(config.source.path)):
            raise ConfigError(
                f"model.from: the recordings in {config.source.path} have changed since this was planned",
                hint="run the same command again: it plans anew",
            )
        self._redact = redactor()
        self._sessions: dict[str, _Session] = {}
        self._windows: dict[tuple[str, str], int | None] = {}
        self._unread = list(self._files.values())
        self.name = "replay"
        self.tools = _tools(self._files.values())

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises ModelError, not to be tried again, where the recording ends or another request was recorded."""
        session = of_session(self._sessions, request.session, lambda: self._open(request.session))
        return session.answer(request, self._config)

    def _open(self, session: str) -> "_Session":
        path = find(self._files, session)
        return _Session(path, list(read(path)), self._redact)

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        """What the recorded model had: agents plan with it, so their requests depend on it."""
        while (place, role) not in self._windows and self._unread:
            for line in read(self._unread.pop(0)):
                said = line.exchange
                self._windows.setdefault((said.place, said.role), said.window)
        return self._windows.get((place, role))

    async def aclose(self) -> None:
        self._sessions.clear()


@dataclass
class _Session:
    """One rollout: its recorded lines, and which of them comes next for every role."""

    path: Path
    lines: Sequence[Line]
    redact: Redactor
    following: int | None = None
    start: int = 0
    """Line with which the rollout, or what of it is repeated, began."""
    given: dict[str, int] = field(default_factory=dict)
    """Role -> place after its last line since then."""
    prints: dict[str, Prints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = [line.asked for line in self.lines]

    def answer(self, request: ChatRequest, config: ReplayConfig) -> ChatReply:
        """The next answer of the request's role. Raises ModelError."""
        asked = self.prints.setdefault(request.role, Prints(self.redact)).of(request.messages)
        self._go_back(request, request_key(request.place, request.role, [each for _, each in asked]))
        first = self.given.get(request.role, self.start)
        place = next((n for n in range(first, len(self.lines)) if self.kept[n].role == request.role), None)
        if place is None:
            count = sum(each.role == request.role for each in self.kept)
            raise self._error(request, count + 1, f"the recording ends after {count} answers of this role")
        line = self.lines[place]
        if problem := _problem(line, request, asked, config):
            raise self._error(request, line.exchange.n, problem)
        self.given[request.role] = place + 1
        self.following = max(self.following or 0, place + 1)
        return line.exchange.reply.reply()

    def _go_back(self, request: ChatRequest, key: str) -> None:
        """Where the rollout begins anew or goes on from a checkpoint, begin there too."""
        opens = all(message.role != "assistant" for message in request.messages)
        asked = Asked(key, request.place, request.role)
        place = place_of(self.kept, asked, self.following, opens=opens)
        if place != self.following and place < len(self.kept):
            self.start, self.following = place, place
            self.given.clear()
        elif self.following is None:
            self.following = 0

    def _error(self, request: ChatRequest, turn: int, problem: str) -> ModelError:
        error = ModelError(
            f"replay: {request.session}, answer {turn} ({request.place or 'no place'}, role {request.role}): {problem}",
            hint=f"recorded in {self.path}; record again, or `match: order` where only the order of answers counts",
        )
        error.retryable = False
        return error


def _problem(
    line: Line, request: ChatRequest, asked: Sequence[tuple[dict[str, Any], Print]], config: ReplayConfig
) -> str:
    said = line.exchange
    if config.match != "order" and said.place != request.place:
        return f"it was recorded in {said.place or 'no place'}"
    if config.match == "exact" and said.seed != request.sampling.seed:
        return f"it was recorded with the seed {said.seed}, now it is {request.sampling.seed}"
    return first_difference(line.messages, asked, config.match)


def _tools(files: Iterable[Path]) -> tuple[str, ...]:
    """The sandbox tools that the recorded model brought. Raises ConfigError when files disagree."""
    found: dict[tuple[str, ...], Path] = {}
    for path in files:
        line = next(read(path), None)
        if line is not None:
            found.setdefault(line.exchange.tools, path)
    if len(found) > 1:
        (_, one), (_, other) = list(found.items())[:2]
        raise ConfigError(
            f"model.from: {one} and {other.name} are of models with different tools",
            hint="keep recordings of different models in folders of their own",
        )
    return next(iter(found), ())
