"""One rollout's folder: writes requests, finds answers, sets aside what does not fit."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uchide.errors import ModelError, StoreError
from uchide.llm.fingerprint import Print, request_key
from uchide.llm.inbox.config import parse_answer
from uchide.llm.inbox.letters import for_people, for_programs
from uchide.llm.resuming import Asked, place_of
from uchide.protocols import ChatReply, ChatRequest
from uchide.records import Usage
from uchide.store.atomic import read_json, refused, write_bytes, write_json

OLD_S = 2.0
"""A text that was last changed so long before its question came is no longer being written."""
_KEYS = ("request", "place", "role", "messages", "asked", "timeout_s")
"""What a question must hold to be told, shown and listed."""
_ANSWERS = (".answer.json", ".answer.md")


@dataclass
class Letter:
    """A request that waits for its answer."""

    folder: Path
    number: int
    key: str
    note: str = ""
    seen: dict[str, tuple[tuple[int, int, int], float]] = field(default_factory=dict)
    """Answer file -> what it looked like, and since when."""

    @property
    def stem(self) -> str:
        return f"{self.number:04d}"


class Mailbox:
    """The folder of one session."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self.folder = folder
        self._timeout_s = timeout_s
        self._kept: list[Asked] = []
        self._next: int | None = None
        """Place of the next request, counted from 0; None before the first one of this process."""

    def post(
        self, request: ChatRequest, messages: Sequence[tuple[dict[str, Any], Print]], keeps: int
    ) -> tuple[Letter, ChatReply | None]:
        """Write the request, of which the first `keeps` messages are known; the reply, if it is there already.

        Raises StoreError when the files cannot be written, ModelError for an answer that cannot be read.
        """
        if self._next is None:
            self._kept = _kept(self.folder)
        key = request_key(request.place, request.role, [each for _, each in messages])
        asked = Asked(key, request.place, request.role)
        opens = all(message.role != "assistant" for message in request.messages)
        place = place_of(self._kept, asked, self._next, opens=opens)
        if place != self._next:
            keeps = 0
        letter = Letter(self.folder, place + 1, asked.key)
        same = place < len(self._kept) and self._kept[place].key == asked.key
        if not same:
            letter.note = self._clear(letter.stem)
            self._kept[place : place + 1] = [asked]
        self._next = place + 1
        reply = answer_of(letter, settle_s=OLD_S, by_age=True) if same else None
        if reply is None:
            data = for_programs(request, letter.number, asked.key, [data for data, _ in messages], self._timeout_s)
            write_json(self.folder / f"{letter.stem}.request.json", data)
            text = for_people(data, keeps, letter.stem, letter.note)
            write_bytes(self.folder / f"{letter.stem}.request.md", text.encode("utf-8", "replace"))
        return letter, reply

    def _clear(self, stem: str) -> str:
        """Set aside an earlier question of this number and its answer; what to tell about it."""
        old = self.folder / f"{stem}.request.json"
        reason = "it answered another question" if old.exists() else "it was there before any question"
        answers = [name for end in _ANSWERS if (name := set_aside(self.folder / f"{stem}{end}", reason))]
        for end in (".request.md", ".request.json"):
            set_aside(self.folder / f"{stem}{end}", "another question has this number now")
        return f"An answer was here and is now {', '.join(answers)}: {reason}." if answers else ""


def _kept(folder: Path) -> list[Asked]:
    kept: list[Asked] = []
    while (path := folder / f"{len(kept) + 1:04d}.request.json").exists():
        question = read_question(path)
        kept.append(Asked(str(question["request"]), str(question["place"]), str(question["role"])))
    return kept


def read_question(path: Path) -> dict[str, Any]:
    """The content of a `request.json`. Raises StoreError where it is none."""
    data = read_json(path)
    missing = _KEYS if not isinstance(data, dict) else [key for key in _KEYS if key not in data]
    if missing:
        raise StoreError(
            f"{path} is not a question of an inbox: {', '.join(missing)} missing",
            hint="it is damaged: move it and its answer away, then run the same command again",
        )
    return dict(data)


def answer_of(letter: Letter, settle_s: float, *, by_age: bool = False) -> ChatReply | None:
    """The answer, once it is whole: JSON when it can be read, a text when it has not changed for `settle_s`, by its own
    age or by what was seen of it.

    An answer that cannot be used is set aside with the reason. Raises ModelError, which fails
    this rollout and no other, where it cannot be read or set aside.
    """
    try:
        return _answer_of(letter, settle_s, by_age=by_age)
    except FileNotFoundError:  # an editor is just replacing it
        return None
    except StoreError as error:
        raise ModelError(f"inbox: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise ModelError(
            f"inbox: {error.filename or letter.folder} cannot be read: {error.strerror}",
            hint="an answer is a plain file that may be read; mend that, then run the same command again",
        ) from error


def _answer_of(letter: Letter, settle_s: float, *, by_age: bool) -> ChatReply | None:
    for name, status in _answers(letter).items():
        path = letter.folder / name
        settled = _settled(letter, name, status, settle_s, by_age=by_age)
        if name.endswith(".json"):
            reply = _json_reply(letter, path, final=settled)
        else:
            reply = _text_reply(path) if settled else None
        if reply is not None:
            return reply
    return None


def _answers(letter: Letter) -> dict[str, os.stat_result]:
    """Answer files that are there and not empty. The folder is listed: a network file system may go on saying for a
    while that a single file does not exist."""
    wanted = [letter.stem + end for end in _ANSWERS]
    with os.scandir(letter.folder) as entries:
        names = {entry.name for entry in entries}
    found = {}
    for name in wanted:
        if name in names:
            try:
                status = (letter.folder / name).stat()
            except FileNotFoundError:  # an editor is just replacing it
                continue
            if status.st_size:
                found[name] = status
    return found


def _settled(letter: Letter, name: str, status: os.stat_result, settle_s: float, *, by_age: bool) -> bool:
    if by_age:
        return time.time() - status.st_mtime >= settle_s
    looks, now = (status.st_ino, status.st_size, status.st_mtime_ns), time.monotonic()
    before, since = letter.seen.get(name, (None, now))
    letter.seen[name] = (looks, since if looks == before else now)
    return looks == before and now - since >= settle_s


def _text_reply(path: Path) -> ChatReply | None:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        set_aside(path, f"it is not UTF-8 (byte {error.start})")
        return None
    return ChatReply(text, Usage(calls=1), "stop", "inbox")


def _json_reply(letter: Letter, path: Path, *, final: bool) -> ChatReply | None:
    try:
        answer = parse_answer(path.read_bytes())
    except ValueError as error:
        if final:  # else it may only be half written
            set_aside(path, str(error))
        return None
    if answer.request is not None and answer.request != letter.key:
        set_aside(path, f"it answers the request {answer.request}; this one is {letter.key}")
        return None
    return answer.reply(letter.number)


def set_aside(path: Path, reason: str) -> str:
    """Move a file into `set-aside/` beside it, with its reason; its new name, or nothing when there is no such file.

    Raises StoreError when that is refused.
    """
    folder = path.parent / "set-aside"
    number = 1
    while (target := folder / f"{path.stem}.{number}{path.suffix}").exists():
        number += 1
    try:
        if not path.exists():
            return ""
        folder.mkdir(exist_ok=True)
        try:
            path.replace(target)
        except FileNotFoundError:  # whoever answers has just taken it away
            return ""
        target.with_suffix(".why.txt").write_text(reason + "\n", encoding="utf-8")
    except OSError as error:
        raise refused(target, error) from error
    return f"set-aside/{target.name}"


__all__ = ["Letter", "Mailbox", "answer_of", "read_question", "set_aside"]
