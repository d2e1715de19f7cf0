"""Where in what is kept of a session a request belongs: rollouts are repeated and resumed, and nobody announces it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

HELPERS = frozenset({"formatter", "summary"})
"""Roles that may be asked the same thing twice within one rollout."""
LIVE_SESSIONS = 256
"""Rollouts of which something is kept in memory; one that comes back after that is like one of another process."""

Kept = TypeVar("Kept")


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
    (0) if it opens a conversation where the first one was opened, else it is resumed at a question not asked before.

    Later requests follow one another, except when an opening comes again: then an infrastructure failure made the
    rollout begin anew, or go back to its checkpoint. Agents number their visits in the prompt, so that no rollout opens
    two conversations alike; only `HELPERS` may be asked the same thing twice.
    """
    tells = request.role not in HELPERS
    until = len(kept) if following is None else following
    same = [number for number, asked in enumerate(kept[:until]) if asked.key == request.key] if tells else []
    if following is not None:
        return same[-1] if opens and same else following
    if same:
        return same[-1]
    anew = opens and bool(kept) and (kept[0].place, kept[0].role) == (request.place, request.role)
    return 0 if anew else len(kept)


def of_session(sessions: dict[str, Kept], session: str, make: Callable[[], Kept]) -> Kept:
    """What is kept of a session, made if need be. The session that was silent for longest is forgotten."""
    kept = sessions.pop(session) if session in sessions else make()
    sessions[session] = kept
    if len(sessions) > LIVE_SESSIONS:
        del sessions[next(iter(sessions))]
    return kept
