"""The turn contract: `WORKFLOW:`, `THOUGHT:`, `FINAL_ANSWER:`, and at most one action."""

import re
from dataclasses import dataclass

from uchide.actions import ActionFormat, FormatError, shell_command
from uchide.protocols import ChatReply

COMPLETE, GIVEUP, HANDOVER = "COMPLETE", "GIVEUP", "HANDOVER"

_THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_WORKFLOW = re.compile(r"\s*WORKFLOW[ \t]*:[ \t]*(\S+)[ \t\r]*(?:\n|\Z)", re.IGNORECASE)
_THOUGHT = re.compile(r"^[ \t]*THOUGHT[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"^[ \t]*FINAL_ANSWER[ \t]*:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Turn:
    """A well-formed reply. `answer` is the text of FINAL_ANSWER when that is no action."""

    token: str
    thought: str
    action: str | None
    answer: str


def parse_turn(reply: ChatReply, action_format: ActionFormat, steps: int) -> Turn | FormatError:
    """Read a reply by the contract. `steps` workflow steps make the tokens W0..."""
    turn = _parse(reply, action_format, steps)
    if reply.finish_reason == "length" and isinstance(turn, FormatError):
        return FormatError(f"{turn.reason} (the reply was cut off at the server's token limit; be shorter)")
    return turn


def _parse(whole: ChatReply, action_format: ActionFormat, steps: int) -> Turn | FormatError:
    reply = _THINK.sub("", whole.text, count=1) if whole.text.lstrip().startswith("<think>") else whole.text
    if not reply.strip():
        return FormatError("the reply is empty")
    head = _WORKFLOW.match(reply)
    if head is None:
        return FormatError("the first line is not `WORKFLOW: <token>`")
    token = head[1].strip("*`").upper()
    if token not in (COMPLETE, GIVEUP, HANDOVER) and not _is_step(token, steps):
        return FormatError(
            f"{head[1][:40]!r} is no workflow token here: use W0..W{steps - 1}, COMPLETE, GIVEUP, HANDOVER"
        )
    body = reply[head.end() :]
    marker = _ANSWER.search(body)
    answer = body[marker.end() :] if marker else body
    call = action_format.read(answer, whole.tool_calls)
    action = call if call is None or isinstance(call, FormatError) else shell_command(call)
    if isinstance(action, FormatError):
        return action
    if action is None and _is_step(token, steps):
        return FormatError("there is no action under FINAL_ANSWER:")
    thought = _THOUGHT.sub("", body[: marker.start()] if marker else "", count=1).strip()
    return Turn(token, thought, action, "" if action is not None or marker is None else answer.strip())


def _is_step(token: str, steps: int) -> bool:
    return token[:1] == "W" and token[1:].isdecimal() and token.isascii() and int(token[1:]) < steps
