"""The other side of an inbox: what waits for an answer, and giving one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from uchide.errors import ConfigError
from uchide.llm.inbox.config import parse_answer
from uchide.llm.inbox.mailbox import read_question
from uchide.store.atomic import write_bytes

_REQUEST = ".request.json"


@dataclass(frozen=True)
class Waiting:
    """A question without an answer."""

    path: Path
    """Its `request.json`."""
    data: dict[str, Any]

    @property
    def which(self) -> str:
        """How to name it: `<folder of the session>/<number>`."""
        return f"{self.path.parent.name}/{self.path.name.removesuffix(_REQUEST)}"

    @property
    def age_s(self) -> float:
        """Seconds since it was asked."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.data["asked"])).total_seconds()

    @property
    def is_late(self) -> bool:
        """Whether its rollout has stopped waiting; an answer is used when the experiment runs again."""
        return self.age_s > float(self.data["timeout_s"])

    def text(self) -> str:
        """What is new, for people."""
        return self._beside(".request.md").read_text(encoding="utf-8")

    def give(self, data: bytes, *, as_json: bool) -> Path:
        """Answer it with a text or with the content of an `answer.json`; the file that was written.

        Raises ConfigError for an answer that could not be used.
        """
        try:
            if as_json:
                parse_answer(data)
            elif not data.decode("utf-8"):
                raise ValueError("it is empty")
        except ValueError as error:
            raise ConfigError(f"the answer to {self.which} cannot be used: {error}") from error
        path = self._beside(".answer.json" if as_json else ".answer.md")
        write_bytes(path, data)
        return path

    def _beside(self, end: str) -> Path:
        return self.path.with_name(self.path.name.removesuffix(_REQUEST) + end)


def waiting(folder: Path) -> list[Waiting]:
    """The last question of every rollout, where it has no answer yet; the oldest first. Raises ConfigError."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", hint="the model's `dir`, as the experiment file names it")
    found = []
    for rollout in (item for item in folder.iterdir() if item.is_dir()):
        if requests := sorted(rollout.glob(f"*{_REQUEST}")):
            stem = requests[-1].name.removesuffix(_REQUEST)
            if not any((rollout / f"{stem}{end}").exists() for end in (".answer.md", ".answer.json")):
                found.append(Waiting(requests[-1], read_question(requests[-1])))
    return sorted(found, key=lambda each: (each.data["asked"], each.which))


def choose(found: Sequence[Waiting], which: str | None) -> Waiting:
    """The only question whose name holds `which`. Raises ConfigError."""
    fit = [each for each in found if which is None or which in each.which]
    if len(fit) == 1:
        return fit[0]
    named = f" that is named {which!r}" if which else ""
    if not fit:
        raise ConfigError(f"no question{named} waits for an answer")
    names = ", ".join(each.which for each in fit[:5])
    raise ConfigError(f"{len(fit)} questions{named} wait: {names}", hint="name one of them with --which")
