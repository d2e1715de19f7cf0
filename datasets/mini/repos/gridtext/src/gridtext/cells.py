"""What stands in a cell: from values to text and back."""

import re

NUMBER = re.compile(r"[+-]?(\d+(,\d{3})*(\.\d*)?|\.\d+)([eE][+-]?\d+)?%?")


def is_number(text):
    """Whether a text looks like a number: `-3`, `1,234.5`, `.5`, `1e-3`, `12%`."""
    return bool(NUMBER.fullmatch(text.strip()))


def to_text(value, places=None):
    """The text of a value. None is empty; `places` rounds floats."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _float(value, places)
    return str(value)


def _float(value, places):
    if places is None:
        return f"{value:g}"
    text = f"{value:.{places}f}"
    return text[1:] if float(text) == 0 and text.startswith("-") else text


def to_value(text):
    """A value from the text of a CSV field: int, float, None for an empty text, else the text itself."""
    stripped = text.strip()
    if not stripped:
        return None
    for kind in (int, float):
        try:
            return kind(stripped) if is_number(stripped) else text
        except ValueError:
            continue
    return text
