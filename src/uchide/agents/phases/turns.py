"""The turn contract: `WORKFLOW:`, `THOUGHT:`, `FINAL_ANSWER:`, and at most one action."""

import re
from dataclasses import dataclass

from uchide.actions import ActionFormat, FormatError, shell_command
from uchide.protocols import ChatReply, ToolSpec

COMPLETE, GIVEUP, HANDOVER = "COMPLETE", "GIVEUP", "HANDOVER"
CUT_OFF = "the reply was cut off at the server's token limit; be shorter"

_WORKFLOW = re.compile(r"\s*WORKFLOW[ \t]*:[ \t]*(\S+)[ \t\r]*(?:\n|\Z)", re.IGNORECASE)
_THOUGHT = re.compile(r"^[ \t]*THOUGHT[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"^[ \t]*FINAL_ANSWER[ \t]*:", re.IGNORECASE | re.MULTILINE)


BASH = ToolSpec(
    name="bash",
    description="Run a command with bash, in a fresh shell in the repository.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The command, as typed into a terminal."}},
        "required": ["command"],
        "additionalProperties": False,
    },
)
"""The only tool, as formats that go through the API announce it."""


@dataclass(frozen=True)
class Turn:
    """A well-formed reply. `answer` is the text of FINAL_ANSWER where no action stands in that."""

    token: str
    thought: str
    action: str | None
    answer: str


@dataclass(frozen=True)
class Draft:
    """A reply by its three parts, before anybody looked for an action in it."""

    token: str
    thought: str
    answer: str
    """What stands under FINAL_ANSWER, or all after the first line where there is no such marker."""
    marked: bool

    @property
    def is_step(self) -> bool:
        """Whether an action is due."""
        return self.token not in (COMPLETE, GIVEUP, HANDOVER)


def parse_turn(reply: ChatReply, form: ActionFormat, steps: int, *, handover: bool = True) -> Turn | FormatError:
    """Read a reply by the contract. `steps` workflow steps make the tokens W0...; HANDOVER is one unless `handover` is
    false."""
    turn = _parse(reply, form, steps, handover)
    if reply.finish_reason == "length" and isinstance(turn, FormatError):
        return FormatError(f"{turn.reason} ({CUT_OFF})")
    return turn


def _parse(reply: ChatReply, form: ActionFormat, steps: int, handover: bool) -> Turn | FormatError:
    if form.native and reply.tool_calls and not _WORKFLOW.match(without_reasoning(reply.text)):
        # Models trained on API tools often call without a word: a step like any other, at a place they did not name.
        draft: Draft | FormatError = Draft("", reply.text.strip(), "", marked=True)
    else:
        draft = parse_draft(reply.text, steps, handover=handover)
    if isinstance(draft, FormatError):
        return draft
    if (cut := cut_exit(draft, reply)) is not None:
        return cut
    action = read_action(draft.answer, reply, form)
    if isinstance(action, FormatError):
        return action
    if action is None and draft.is_step:
        return FormatError(
            "there is no call of the tool bash" if form.native else "there is no action under FINAL_ANSWER:"
        )
    in_text = action is not None and not form.native
    thought = draft.thought if draft.marked or not in_text else ""
    return Turn(draft.token, thought, action, draft.answer if draft.marked and not in_text else "")


def cut_exit(draft: Draft, reply: ChatReply) -> FormatError | None:
    """Why a token that leaves is not taken: the reply was cut before its FINAL_ANSWER, and may have been about to say
    something else. A memo that is cut is still a memo."""
    if reply.finish_reason != "length" or draft.is_step or (draft.marked and draft.answer):
        return None
    return FormatError(f"{draft.token} is not taken without anything under FINAL_ANSWER:")


def read_action(text: str, reply: ChatReply, form: ActionFormat) -> str | FormatError | None:
    """The command of a reply whose action stands in `text` or in its API tool calls; None where there is none."""
    call = form.read(text, reply.tool_calls)
    if call is None or isinstance(call, FormatError):
        return call
    if reply.finish_reason == "length":
        return FormatError("the action may be half of one, or not the only one")
    return shell_command(call)


def parse_draft(text: str, steps: int, *, handover: bool = True) -> Draft | FormatError:
    """The parts of a reply."""
    reply = without_reasoning(text)
    if not reply.strip():
        return FormatError("the reply is empty")
    head = _WORKFLOW.match(reply)
    if head is None:
        return FormatError("the first line is not `WORKFLOW: <token>`")
    token = head[1].strip("*`").upper()
    leaving = (COMPLETE, GIVEUP, HANDOVER) if handover else (COMPLETE, GIVEUP)
    if token not in leaving and not _is_step(token, steps):
        known = ", ".join((f"W0..W{steps - 1}", *leaving))
        return FormatError(f"{head[1][:40]!r} is no workflow token here: use {known}")
    body = reply[head.end() :]
    marker = _ANSWER.search(body)
    thought = _THOUGHT.sub("", body[: marker.start()] if marker else body, count=1).strip()
    return Draft(token, thought, (body[marker.end() :] if marker else body).strip(), marker is not None)


def without_reasoning(text: str) -> str:
    """`text` without the `<think>` block that it may begin with; chat templates may have written its opening tag."""
    _, ended, rest = text.partition("</think>")
    if not ended or _WORKFLOW.match(text):
        return text
    return rest if text.lstrip().startswith("<think>") or _WORKFLOW.match(rest) else text


def _is_step(token: str, steps: int) -> bool:
    return token[:1] == "W" and token[1:].isdecimal() and token.isascii() and int(token[1:]) < steps
