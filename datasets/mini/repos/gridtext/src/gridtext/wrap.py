"""Breaking text into lines by display width."""

from gridtext.errors import TableError
from gridtext.width import char_width, display_width


def wrap(text, width):
    """Lines of at most `width` columns, broken at blanks; longer words are cut. Line breaks in the text stay."""
    if width < 2:
        raise TableError("a column needs at least two columns of the terminal")
    lines = []
    for paragraph in text.split("\n"):
        lines.extend(_paragraph(paragraph, width))
    return lines


def _paragraph(text, width):
    lines, line = [], ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *whole, line = _cut(word, width)
        lines.extend(whole)
    lines.append(line)
    return lines


def _cut(word, width):
    """Pieces of a word that fit; the last one may be short."""
    pieces, piece, used = [], "", 0
    for char in word:
        if used + char_width(char) > width:
            pieces.append(piece)
            piece, used = "", 0
        piece += char
        used += char_width(char)
    return [*pieces, piece]
