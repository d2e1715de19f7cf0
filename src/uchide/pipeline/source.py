"""Source text without what cannot matter. Standard library only: the result is the same on any Python."""

import tokenize


def strip_comments(text: str) -> str:
    """Python source without comments, blank lines and trailing blanks; every string stays as it is.

    Raises SyntaxError on text that is not Python.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line + "\n" for line in text.split("\n")]
    comments, inside = _positions(lines)
    out = []
    for number, line in enumerate(lines, start=1):
        code = line[: comments[number]] if number in comments else line
        if number in inside:
            out.append(line)
        elif code.strip() or number - 1 in inside:
            out.append(code.rstrip() + "\n")
    return "".join(out)


def _positions(lines: list[str]) -> tuple[dict[int, int], set[int]]:
    """Line -> column of its comment, and the lines whose end lies inside a string."""
    comments: dict[int, int] = {}
    inside: set[int] = set()
    started: list[int] = []
    rest = iter(lines)
    try:
        for token in tokenize.generate_tokens(lambda: next(rest, "")):
            kind = tokenize.tok_name[token.type]
            if kind == "COMMENT":
                comments[token.start[0]] = token.start[1]
            elif kind == "STRING":
                inside.update(range(token.start[0], token.end[0]))
            elif kind in ("FSTRING_START", "TSTRING_START"):  # Python 3.12 and later take f-strings apart
                started.append(token.start[0])
            elif kind in ("FSTRING_END", "TSTRING_END"):
                inside.update(range(started.pop(), token.end[0]))
    except tokenize.TokenError as error:
        raise SyntaxError(str(error)) from error
    return comments, inside
