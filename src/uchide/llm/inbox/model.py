"""The model itself: asks through files, and one poller looks for all answers that are waited for."""

import asyncio
import logging
from importlib.resources import files
from pathlib import Path

from uchide.errors import ModelError
from uchide.llm.fingerprint import Prints, common, file_stem
from uchide.llm.inbox.config import InboxConfig
from uchide.llm.inbox.mailbox import Letter, Mailbox, answer_of
from uchide.llm.resuming import of_session
from uchide.protocols import ChatReply, ChatRequest, Message
from uchide.redact import redactor
from uchide.store.atomic import write_bytes

_LOG = logging.getLogger(__name__)


class Inbox:
    """A chat model that somebody else plays."""

    name = "inbox"
    tools: tuple[str, ...] = ()

    def __init__(self, config: InboxConfig) -> None:
        self._config = config
        self._folder = Path(config.dir).expanduser()
        self._redact = redactor()
        self._sessions: dict[str, _Rollout] = {}
        self._waiting: dict[int, tuple[Letter, asyncio.Future[ChatReply]]] = {}
        self._poller: asyncio.Task[None] | None = None

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises ModelError when no readable answer comes in time, StoreError when the folder cannot be used."""
        self._explain()
        rollout = of_session(self._sessions, request.session, lambda: self._open(request.session))
        letter, reply = await asyncio.to_thread(self._post, rollout, request)
        if reply is not None:
            return reply
        # A warning reaches the job's log, where nothing else tells that the run stands still.
        _LOG.warning("inbox: waits for %s", letter.folder / f"{letter.stem}.answer.md")
        return await self._answer(letter)

    async def window(self, place: str = "", role: str = "agent") -> int | None:
        del place, role
        return self._config.window

    async def aclose(self) -> None:
        if self._poller is not None:
            self._poller.cancel()

    def _explain(self) -> None:
        """The protocol, once, in the folder itself."""
        readme = self._folder / "README.md"
        if not readme.exists():
            write_bytes(readme, (files(__package__) / "readme.md").read_bytes())

    def _open(self, session: str) -> "_Rollout":
        return _Rollout(Mailbox(self._folder / file_stem(session), self._config.timeout_s))

    def _post(self, rollout: "_Rollout", request: ChatRequest) -> tuple[Letter, ChatReply | None]:
        prints, before = rollout.roles.get(request.role, (Prints(self._redact), ()))
        rollout.roles[request.role] = (prints, tuple(request.messages))
        messages = prints.of(request.messages)
        return rollout.box.post(request, messages, common(before, request.messages))

    async def _answer(self, letter: Letter) -> ChatReply:
        future: asyncio.Future[ChatReply] = asyncio.get_running_loop().create_future()
        self._waiting[id(letter)] = (letter, future)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(self._config.timeout_s) as deadline:
                return await future
        except TimeoutError:
            if not deadline.expired():
                raise
            wanted = letter.folder / f"{letter.stem}.answer.md"
            raise ModelError(
                f"inbox: no answer within {self._config.timeout_s:g} s; {wanted} was waited for",
                hint="answer it and run the same command again: answers that are there are used at once",
            ) from None
        finally:
            del self._waiting[id(letter)]

    async def _poll(self) -> None:
        """Look for every answer that is waited for, until none is."""
        while self._waiting:
            await asyncio.sleep(self._config.poll_s)
            waiting = list(self._waiting.values())
            try:
                found = await asyncio.to_thread(_look, [letter for letter, _ in waiting], self._config.settle_s)
            except BaseException as error:
                _fail([future for _, future in waiting], error)
                raise
            for (_, future), reply in zip(waiting, found, strict=True):
                if future.done():
                    continue
                if isinstance(reply, ChatReply):
                    future.set_result(reply)
                elif reply is not None:
                    future.set_exception(reply)


class _Rollout:
    """What is kept in memory of one rollout: its folder, and per role how far its conversation is known."""

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self.roles: dict[str, tuple[Prints, tuple[Message, ...]]] = {}


def _fail(futures: list["asyncio.Future[ChatReply]"], error: BaseException) -> None:
    """Nobody waits for a poller that is gone."""
    for future in futures:
        if not future.done():
            future.set_exception(error) if isinstance(error, Exception) else future.cancel()


def _look(letters: list[Letter], settle_s: float) -> list[ChatReply | ModelError | None]:
    return [_look_for(letter, settle_s) for letter in letters]


def _look_for(letter: Letter, settle_s: float) -> ChatReply | ModelError | None:
    try:
        return answer_of(letter, settle_s)
    except ModelError as error:  # of this rollout alone
        return error
