"""The reasoning that a model puts before its answer."""

import re

_CLOSED = re.compile(r"^[ \t]*</think>", re.MULTILINE)


def without_reasoning(text: str) -> str:
    """`text` without the `<think>` block that it may begin with.

    Chat templates may have written the opening tag: then the closing one counts where it begins a line.
    """
    if text.lstrip().startswith("<think>"):
        _, ended, rest = text.partition("</think>")
        return rest if ended else text
    closed = _CLOSED.search(text)
    return text[closed.end() :] if closed else text
