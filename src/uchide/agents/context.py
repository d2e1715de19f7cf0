"""How much of a model's context a conversation has used, by the server's own counts.

A reply's usage says what everything up to its end came to; what was added since is estimated by the characters per
token measured so far, with a margin. Nothing is counted twice, so a turn costs the same whatever came before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from uchide.protocols import ChatReply, Message

ANSWER_TOKENS = 4096
"""Room left for an answer whose length nobody limits."""
RESERVE = 256
"""Tokens kept free beside the answer, so that a full conversation can still be asked for its memo."""
_FIRST_RATIO = 3.0
_BEST_RATIO = 4.0
_CAUTION = 0.8


def answer_room(window: int | None, max_tokens: int | None) -> int:
    """Tokens to keep free for an answer."""
    if max_tokens is not None:
        return max_tokens
    return min(ANSWER_TOKENS, window // 4) if window is not None else ANSWER_TOKENS


def size(messages: Sequence[Message]) -> int:
    """Characters of messages, tool calls included."""
    calls = (call for message in messages for call in message.tool_calls)
    return sum(len(message.content) for message in messages) + sum(len(c.name) + len(c.arguments) for c in calls)


@dataclass
class Budget:
    """Tokens of one conversation beside those it may have. Sizes of text are in characters."""

    window: int | None
    """Tokens of a prompt and its answer together; None where nobody says: all fits then, until a server refuses."""
    answer: int
    """Tokens of an answer."""
    _counted: int = field(default=0, init=False)
    _added: int = field(default=0, init=False)
    _ratio: float | None = field(default=None, init=False)
    _fresh: bool = field(default=True, init=False)
    _sent: int = field(default=0, init=False)

    def rebuilt(self, messages: Sequence[Message]) -> None:
        """The conversation consists of these messages now."""
        self._counted, self._added, self._sent, self._fresh = 0, size(messages), size(messages), True

    def grew(self, messages: Sequence[Message]) -> None:
        """Messages were added that no server has counted yet."""
        more = size(messages)
        self._added += more
        self._sent += more

    def replied(self, reply: ChatReply) -> None:
        """The conversation was sent as it is, and answered."""
        written = len(reply.text) + sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
        self._fresh = False
        if reply.usage.prompt_tokens:
            self._ratio = min(_BEST_RATIO, self._sent / reply.usage.prompt_tokens)
            self._counted, self._added = reply.usage.prompt_tokens + reply.usage.completion_tokens, 0
        else:
            self._ratio = self._ratio or _FIRST_RATIO
            self._added += written
        self._sent += written

    def refused(self) -> None:
        """The server found the conversation too long: its window is smaller than was thought."""
        believed = int(0.9 * (self._counted + self._added / (self._ratio or _FIRST_RATIO))) + self.answer
        self.window = believed if self.window is None else min(self.window, believed)

    def tokens(self, more: int = 0) -> int:
        """Tokens of the conversation, with `more` characters at its end."""
        ratio = self._ratio or _FIRST_RATIO
        # Without margin where nothing but an estimate is at hand: what has not been tried is not to be refused for it.
        return self._counted + round((self._added + more) / (ratio if self._fresh else _CAUTION * ratio))

    def over(self) -> bool:
        """Whether the next request would leave no room for its answer. False as long as no server has counted
        anything."""
        if self.window is None or self._ratio is None:
            return False
        return self.tokens() + self.answer + RESERVE > self.window

    def left(self, more: int = 0) -> int | None:
        """Tokens for an answer to a request with `more` characters at its end; None: no limit is known."""
        return None if self.window is None else self.window - self.tokens(more)

    def room(self) -> int | None:
        """Characters that the conversation may grow by before it is over; None: no limit is known."""
        if self.window is None:
            return None
        left = self.window - self.answer - RESERVE - self.tokens()
        return max(0, int(left * _CAUTION * (self._ratio or _FIRST_RATIO)))
