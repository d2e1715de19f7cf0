"""Writing CSV that any reader gets back unchanged."""

from gridtext.cells import to_text


def write_csv(table, delimiter=",", end="\n"):
    """CSV text with a header."""
    lines = [delimiter.join(quote(name, delimiter) for name in table.columns)]
    lines.extend(delimiter.join(quote(to_text(value), delimiter) for value in row) for row in table.rows)
    return "".join(line + end for line in lines)


def quote(field, delimiter=","):
    """The field in quotes where a reader would need them: delimiter, quote, line ends, blanks at the ends."""
    risky = (delimiter, '"', "\n", "\r")
    if any(char in field for char in risky) or field != field.strip():
        return '"' + field.replace('"', '""') + '"'
    return field
