"""Reading CSV: quotes, doubled quotes, line breaks in quotes, any of the three line ends."""

from gridtext.cells import to_value
from gridtext.errors import CsvError
from gridtext.table import Table


def read_csv(text, delimiter=",", header=True, convert=True):
    """A table from CSV text. Without a header the columns are called c1, c2, ..."""
    rows = list(fields(text.lstrip("\ufeff"), delimiter))
    if not rows:
        return Table([])
    names = rows.pop(0) if header else [f"c{number + 1}" for number in range(max(map(len, rows)))]
    return Table([name.strip() for name in names], [[to_value(f) if convert else f for f in row] for row in rows])


def fields(text, delimiter=","):
    """Rows as lists of texts. Blank lines are left out."""
    row, field, quoted, was_quoted, line, position = [], "", False, False, 1, 0
    while position < len(text):
        char = text[position]
        if quoted:
            if char == '"' and text[position + 1 : position + 2] == '"':
                field += '"'
                position += 1
            elif char == '"':
                quoted = False
            else:
                field += char
                line += char == "\n"
        elif char == '"' and not field and not was_quoted:
            quoted = was_quoted = True
        elif char == delimiter:
            row.append(field)
            field, was_quoted = "", False
        elif char in "\r\n":
            if text[position : position + 2] == "\r\n":
                position += 1
            if row or field or was_quoted:
                yield [*row, field]
            row, field, was_quoted = [], "", False
            line += 1
        elif was_quoted:
            raise CsvError(f"{char!r} after a closing quote", line)
        else:
            field += char
        position += 1
    if quoted:
        raise CsvError("a quote is not closed", line)
    if row or field or was_quoted:
        yield [*row, field]
