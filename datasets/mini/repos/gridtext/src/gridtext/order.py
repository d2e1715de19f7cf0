"""The order of mixed values."""

import re

PART = re.compile(r"(\d+)")


def sort_key(value):
    """A key under which numbers come before text; digits inside text count as numbers (`a2` before `a10`)."""
    if isinstance(value, (int, float)):
        return (0, value, ())
    return (1, 0, natural(str(value)))


def natural(text):
    """Alternating text and numbers, letters regardless of case."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part.casefold()) for part in PART.split(text) if part)
