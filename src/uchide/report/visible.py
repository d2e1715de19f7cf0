"""Makes text from models, tests and issues harmless to look at: nothing in it stays invisible or steers a terminal."""

import re

# Bidirectional controls and other characters that change what a reader sees without being seen themselves.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with control bytes as their symbols (ESC as U+241B), and hidden or bidirectional characters, C1 controls
    and lone surrogates by number (`<U+202E>`). Newlines and tabs stay; CR before a newline is dropped.

    The result is still to be escaped for HTML.
    """
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROL.sub(_symbol, text)
    for pattern in (_HIDDEN, _TAGS, _SURROGATE):
        text = pattern.sub(_numbered, text)
    return text


def one_line(text: str, limit: int = 200) -> str:
    """The visible text on one line, cut to `limit` characters."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def clip(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail with a notice between. Cut before it is made visible."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit:,} characters left out …\n{text[len(text) - tail :]}"


def _symbol(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _numbered(match)


def _numbered(match: re.Match[str]) -> str:
    return f"<U+{ord(match.group()):04X}>"
