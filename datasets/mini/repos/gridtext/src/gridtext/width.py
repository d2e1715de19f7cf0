"""How many columns of a terminal a text takes."""

import unicodedata


def char_width(char):
    """0 for combining marks and control characters, 2 for wide and full-width characters, else 1."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cc", "Cf", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def display_width(text):
    """Width of the widest line."""
    return max((sum(map(char_width, line)) for line in text.split("\n")), default=0)


def pad(text, width, align="left"):
    """The text filled up with blanks to `width`; `align` is left, right or center (the odd blank goes to the right)."""
    room = max(width - display_width(text), 0)
    if align == "right":
        return " " * room + text
    if align == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room


def truncate(text, width, mark="…"):
    """The text cut to at most `width` columns, the mark included."""
    if display_width(text) <= width:
        return text
    room = width - display_width(mark)
    kept, used = "", 0
    for char in text:
        if used + char_width(char) > room:
            break
        kept += char
        used += char_width(char)
    return kept + mark if room >= 0 else mark[:width]
