"""From text to typed values."""

import re

from slateconf.errors import ValueProblem

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)


def unquote(text):
    """The text without one pair of surrounding quotes."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def to_int(text):
    """An integer: decimal, `0x`, `0o` or `0b`, underscores allowed."""
    try:
        return int(text, 0) if text.lower().lstrip("+-")[:2] in ("0x", "0o", "0b") else int(text)
    except ValueError:
        raise ValueProblem(f"not an integer: {text!r}") from None


def to_float(text):
    try:
        return float(text)
    except ValueError:
        raise ValueProblem(f"not a number: {text!r}") from None


def to_bool(text):
    word = text.strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ValueProblem(f"not a boolean: {text!r}")


def to_list(text):
    """Items between commas; quotes keep a comma inside an item; an empty text is an empty list."""
    items, item, quote = [], "", None
    for char in text:
        if quote:
            quote = None if char == quote else quote
            item += char
        elif char in "\"'":
            quote = char
            item += char
        elif char == ",":
            items.append(item)
            item = ""
        else:
            item += char
    if item.strip() or items:
        items.append(item)
    return [unquote(entry.strip()) for entry in items if entry.strip()]


def to_duration(text):
    """Seconds, from `90`, `1.5s`, `250ms`, `1h30m`."""
    compact = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return float(compact)
    total, position = 0.0, 0
    for match in DURATION.finditer(compact):
        if compact[position : match.start()].strip():
            break
        total += float(match[1]) * SECONDS[match[2]]
        position = match.end()
    if position == 0 or compact[position:].strip():
        raise ValueProblem(f"not a duration: {text!r}")
    return total


def to_size(text):
    """Bytes, from `512`, `64k`, `1.5 MB`."""
    match = SIZE.fullmatch(text.strip())
    if not match or match[2].lower() not in SIZES:
        raise ValueProblem(f"not a size: {text!r}")
    return int(float(match[1]) * SIZES[match[2].lower()])
