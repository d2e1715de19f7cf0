"""Where in what is kept of a session a request belongs: rollouts are repeated and resumed, and nobody announces it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A request of a session in short."""

    key: str
    place: str
    role: str


def begins_again(kept: Sequence[Asked], request: Asked) -> bool:
    """Whether a rollout under way has begun anew (an infrastructure failure): its first request comes again.

    Agents number their visits in the prompt, so no later request of the same rollout is equal to it.
    """
    return bool(kept) and kept[0].key == request.key


def goes_on_at(kept: Sequence[Asked], request: Asked) -> int:
    """Where the first request that a process makes for a session belongs, counted from 0, when earlier ones are kept.

    The last equal one: a rollout resumed from its checkpoint asks again what it was asking when it was killed, a
    repeated one begins with its first. No equal one: the rollout begins with other prompts (0) if it stands where it
    stood first, else it is resumed at a question that had not been asked.
    """
    same = [number for number, asked in enumerate(kept) if asked.key == request.key]
    if same:
        return same[-1]
    return 0 if kept and (kept[0].place, kept[0].role) == (request.place, request.role) else len(kept)
