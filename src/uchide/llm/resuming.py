"""Where in what is kept of a session a request belongs: rollouts are repeated and resumed, and nobody announces it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A request of a session in short."""

    key: str
    place: str
    role: str


def place_of(kept: Sequence[Asked], request: Asked, following: int | None, *, opens: bool) -> int:
    """Where a request belongs among the `kept` ones, counted from 0.

    `following` is the place after the process's last request of this session, None for its first one. `opens` says that
    it opens a conversation.

    The first request of a process goes where the last equal one is: a repeated rollout begins with the first request, a
    resumed one asks again what it was asking when it was killed. No equal one: the rollout begins with other prompts
    (0) if it stands where it first stood, else it is resumed at a question that had not been asked.

    Later requests follow one another, except when an opening comes again: then an infrastructure failure made the
    rollout begin anew, or go back to its checkpoint. Agents number their visits in the prompt, so that no rollout opens
    two conversations alike; only helpers (formatter, summary) may be asked the same thing twice.
    """
    until = len(kept) if following is None else following
    same = [number for number, asked in enumerate(kept[:until]) if asked.key == request.key]
    if following is not None:
        back = opens and bool(same) and kept[0].role == request.role
        return same[-1] if back else following
    if same:
        return same[-1]
    return 0 if kept and (kept[0].place, kept[0].role) == (request.place, request.role) else len(kept)
