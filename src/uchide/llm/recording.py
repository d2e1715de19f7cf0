"""`record: DIR`: what is said between an agent and any model, kept so that it can be replayed.

One file per rollout, `<DIR>/<session>.jsonl`, so that neither concurrent rollouts nor processes mix; a line per answer,
whole and flushed before the agent sees it. What becomes of a file when its rollout is repeated or resumed is said in
`uchide.llm.resuming`: lines from that point on are cut.
"""

import fcntl
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uchide.errors import StoreError
from uchide.llm.fingerprint import FREE_TEXT, Print, Prints, common, file_stem, request_key
from uchide.llm.resuming import Asked, of_session, place_of
from uchide.llm.transcript import SUFFIX, Line, RecordedReply, line_bytes, read
from uchide.protocols import ChatModel, ChatReply, ChatRequest, Message
from uchide.redact import Redactor, only, redactor
from uchide.store.atomic import refused

_LOG = logging.getLogger(__name__)


class Recorder:
    """A chat model that is another one and writes down what it says. Secrets are redacted as in trajectories."""

    def __init__(self, model: ChatModel, folder: Path) -> None:
        self._model = model
        self._folder = folder.expanduser()
        self._redact = redactor()
        self._sessions: dict[str, _Session] = {}
        self.name = model.name
        self.tools = model.tools

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises what the model raises, and StoreError when the line cannot be written."""
        reply = await self._model.complete(request)
        window = await self._model.window(request.place, request.role)
        path = self._folder / f"{file_stem(request.session)}{SUFFIX}"
        session = of_session(self._sessions, request.session, lambda: _Session(path, self._redact))
        session.write(request, reply, {"name": self.name, "tools": self.tools, "window": window})
        return reply

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        return await self._model.window(place, role)

    async def aclose(self) -> None:
        await self._model.aclose()


def _readable(path: Path) -> list[Line]:
    """The lines of a file that is there. One that cannot be read is set aside with a notice: it is about to be written
    anew, and would stop every later run."""
    if not path.exists():
        return []
    try:
        return list(read(path))
    except StoreError as error:
        number = 1
        while (aside := path.with_name(f"{path.name}.unreadable.{number}")).exists():
            number += 1
        try:
            path.replace(aside)
        except OSError as last:
            raise refused(aside, last) from last
        _LOG.warning("%s; it is now %s", error.message, aside.name)
        return []


@dataclass(frozen=True)
class _Role:
    """Where the conversation of a role stands: its last request and the line that holds it."""

    messages: tuple[Message, ...]
    line: int


class _Session:
    """The file of one session."""

    def __init__(self, path: Path, redact: Redactor) -> None:
        self._path = path
        self._redact = redact
        self._kept: list[Asked] = []
        self._ends: list[int] = []
        """Where every kept line ends in the file."""
        self._following: int | None = None
        self._prints: dict[str, Prints] = {}
        self._roles: dict[str, _Role] = {}
        for line in _readable(path):
            self._kept.append(line.asked)
            self._ends.append(line.end)

    def write(self, request: ChatRequest, reply: ChatReply, more: dict[str, Any]) -> None:
        """Append a line, after cutting those that a rollout begun anew has made void. Raises StoreError."""
        prints = self._prints.setdefault(request.role, Prints(self._redact)).of(request.messages)
        key = request_key(request.place, request.role, [each for _, each in prints])
        asked = Asked(key, request.place, request.role)
        opens = all(message.role != "assistant" for message in request.messages)
        place = place_of(self._kept, asked, self._following, opens=opens)
        if place != self._following:
            self._cut(place)
        data = self._line(request, reply, prints, place + 1) | more
        try:
            with self._path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if file.tell() != (self._ends[-1] if self._ends else 0):
                    raise StoreError(
                        f"{self._path}: another process records the same rollout",
                        hint="give every experiment that runs at once a `record` folder of its own",
                    )
                file.write(line_bytes(data))
                end = file.tell()
        except OSError as error:
            raise refused(self._path, error) from error
        self._kept.append(asked)
        self._ends.append(end)
        self._roles[request.role] = _Role(tuple(request.messages), place + 1)
        self._following = place + 1

    def _cut(self, place: int) -> None:
        """Keep the first `place` lines; from the beginning, that is a fresh file."""
        del self._kept[place:], self._ends[place:]
        self._roles.clear()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if place:
                os.truncate(self._path, self._ends[-1])
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise refused(self._path, error) from error

    def _line(
        self, request: ChatRequest, reply: ChatReply, prints: Sequence[tuple[dict[str, Any], Print]], number: int
    ) -> dict[str, Any]:
        """The line's data; the kind of model is for the caller to add."""
        role = self._roles.get(request.role)
        keeps = common(role.messages, request.messages) if role else 0
        new = [{**data, "exact": each.exact, "normal": each.normal} for data, each in prints[keeps:]]
        after = {"after": role.line, "keeps": keeps} if role and keeps else {}
        return {
            "schema_version": 1,
            "n": number,
            "session": request.session,
            "place": request.place,
            "role": request.role,
            "seed": request.sampling.seed,
            **after,
            "messages": new,
            "reply": only(self._redact, FREE_TEXT)(RecordedReply.of(reply).model_dump()),
        }
