"""Tables for people."""

from gridtext.cells import is_number, to_text
from gridtext.errors import TableError
from gridtext.width import display_width, pad
from gridtext.wrap import wrap

MARKDOWN = {"left": ":--", "right": "--:", "center": ":-:"}


def render(table, style="plain", places=None, max_width=None, align=None):
    """The table as text, without a final line break.

    `places` rounds floats, `max_width` wraps cells, `align` gives an alignment by column name.
    """
    if style not in STYLES:
        raise TableError(f"unknown style {style!r}, known: {', '.join(STYLES)}")
    cells = [[to_text(value, places) for value in row] for row in table.rows]
    alignments = [(align or {}).get(name) or _guess([row[i] for row in cells]) for i, name in enumerate(table.columns)]
    text = STYLES[style](table.columns, cells, alignments, max_width)
    return f"{table.title}\n{text}" if table.title else text


def _guess(column):
    """Right for a column of numbers; empty cells do not count."""
    filled = [cell for cell in column if cell]
    return "right" if filled and all(map(is_number, filled)) else "left"


def _plain(columns, cells, alignments, max_width):
    lines, _ = _lines([list(columns), *cells], alignments, max_width)
    return "\n".join("  ".join(parts).rstrip() for row in lines for parts in row)


def _grid(columns, cells, alignments, max_width):
    lines, widths = _lines([list(columns), *cells], alignments, max_width)
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    blocks = ["\n".join("| " + " | ".join(parts) + " |" for parts in row) for row in lines]
    return "\n".join([rule, f"\n{rule}\n".join(blocks), rule])


def _markdown(columns, cells, alignments, max_width):
    rows = [[_escape(cell) for cell in row] for row in [list(columns), *cells]]
    marks = [MARKDOWN[alignment] for alignment in alignments]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], marks, *rows[1:]])


def _escape(cell):
    """A cell that does not end its column or its row."""
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _lines(rows, alignments, max_width):
    """Per row its lines as padded parts, and the widths of the columns."""
    broken = [[wrap(cell, max_width) if max_width else cell.split("\n") for cell in row] for row in rows]
    count = len(alignments)
    widths = [max(display_width(line) for row in broken for line in row[i]) for i in range(count)]
    padded = []
    for row in broken:
        height = max(map(len, row), default=0)
        filled = [lines + [""] * (height - len(lines)) for lines in row]
        padded.append([[pad(filled[i][n], widths[i], alignments[i]) for i in range(count)] for n in range(height)])
    return padded, widths


STYLES = {"plain": _plain, "grid": _grid, "markdown": _markdown}
