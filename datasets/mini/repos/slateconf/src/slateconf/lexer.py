"""Lines of a file: comments off, continuations joined, kinds told apart."""

import re

from slateconf.errors import ParseError

SECTION = re.compile(r"^\[\s*(?P<name>[^\[\]]+?)\s*\]$")
PAIR = re.compile(r"^(?P<key>[A-Za-z_][\w.-]*)\s*(?P<op>\+?=)\s*(?P<value>.*)$", re.DOTALL)
INCLUDE = re.compile(r"^@include\s+(?P<name>\S.*)$")
QUOTES = "\"'"


def strip_comment(line):
    """The line without a trailing comment. A `#` inside quotes, or glued to a word, is part of the value."""
    quote = None
    for position, char in enumerate(line):
        if quote:
            if char == quote:
                quote = None
        elif char in QUOTES and line[:position].rstrip()[-1:] in ("=", ",", ""):
            quote = char
        elif char == "#" and (position == 0 or line[position - 1].isspace()):
            return line[:position]
    return line


def logical_lines(text):
    """`(number, line)` of every line that says something; a final backslash joins the next line."""
    pending, start = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = strip_comment(raw).strip()
        if not pending:
            start = number
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        line = (pending + line).strip()
        pending = ""
        if line:
            yield start, line
    if pending.strip():
        raise ParseError("the file ends in a continued line", start)


def classify(line, number):
    """`("section", name)`, `("include", name)` or `("pair", key, op, value)`."""
    match = SECTION.match(line)
    if match:
        return ("section", match["name"])
    match = INCLUDE.match(line)
    if match:
        return ("include", match["name"].strip(QUOTES))
    match = PAIR.match(line)
    if match:
        return ("pair", match["key"], match["op"], match["value"].strip())
    raise ParseError(f"neither a section nor a key: {line!r}", number)
