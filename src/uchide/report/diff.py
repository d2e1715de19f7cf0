"""A unified diff as coloured blocks of lines."""

from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Literal

Kind = Literal["file", "hunk", "add", "del", "same"]

DIFF_LINES, LINE_CHARS, DIFF_CHARS = 240, 400, 16_000


@dataclass(frozen=True)
class DiffBlock:
    """Neighbouring lines of one kind, joined by newlines."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class DiffView:
    """The first lines of a diff; `left_out` counts the others."""

    blocks: tuple[DiffBlock, ...]
    added: int
    removed: int
    left_out: int


def view_diff(patch: str) -> DiffView:
    lines = patch.removesuffix("\n").split("\n") if patch else []
    kinds = classify(lines)
    texts = [shorten(line) for line in lines[:DIFF_LINES]]
    sizes = accumulate(len(text) + 1 for text in texts)
    shown = [(kind, text) for kind, text, size in zip(kinds, texts, sizes, strict=False) if size <= DIFF_CHARS]
    blocks = [
        DiffBlock(kind=kind, text="\n".join(text for _, text in group))
        for kind, group in groupby(shown, key=lambda pair: pair[0])
    ]
    return DiffView(
        blocks=tuple(blocks),
        added=kinds.count("add"),
        removed=kinds.count("del"),
        left_out=len(lines) - len(shown),
    )


def classify(lines: list[str]) -> list[Kind]:
    """The kind of each line. `---` and `+++` are file headers only before the first hunk of a file."""
    kinds: list[Kind] = []
    in_hunk = False
    for line in lines:
        if line.startswith("diff --git ") or (not in_hunk and not line.startswith("@@")):
            in_hunk = False
            kinds.append("file")
        elif line.startswith("@@"):
            in_hunk = True
            kinds.append("hunk")
        else:
            kinds.append("add" if line[:1] == "+" else "del" if line[:1] == "-" else "same")
    return kinds


def shorten(line: str) -> str:
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}… {len(line) - LINE_CHARS:,} more characters"
