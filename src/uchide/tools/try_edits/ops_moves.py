"""Operators that delete, swap, move out, unwrap and copy statements."""

import ast
from typing import Iterator

from .issue import split_words
from .site import Site
from .source import FUNCTIONS, Edit, names_in

SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Delete, ast.Raise, ast.Assert)


def moves(site: Site) -> Iterator[Edit]:
    """Delete, swap, move out of the block, and copy in statements from nearby."""
    node = site.node
    if not site.statement_level or site.function is None or isinstance(node, FUNCTIONS + (ast.ClassDef,)):
        return
    source = site.source
    if not (isinstance(node, ast.If) and source.data[source.start(node) :][:4] == b"elif"):
        yield Edit("moves", "delete", 0.35 if isinstance(node, SIMPLE) else 0.25, (site.remove(node),))
        yield from _swap_next(site)
        yield from _dedent(site)
    yield from _unwrap(site)
    yield from _copies(site)


def _swap_next(site: Site) -> Iterator[Edit]:
    block = site.source.siblings(site.node)
    index = block.index(site.node) if site.node in block else len(block)
    if index + 1 < len(block) and site.source.own_lines(block[index + 1]):
        other = block[index + 1]
        start, end = site.source.line_start(site.node), site.source.line_after(site.node)
        text = site.source.data[start:end]
        stop = site.source.line_after(other)
        yield Edit("moves", "after-next", 0.4, ((start, end, b""), (stop, stop, text)))


def _dedent(site: Site) -> Iterator[Edit]:
    """The statement, moved before or after the block that holds it."""
    source, node = site.source, site.node
    parent = source.parents.get(node)
    if not isinstance(parent, (ast.If, ast.For, ast.While, ast.With, ast.Try)) or source.indent(parent) is None:
        return
    start, end = source.line_start(node), source.line_after(node)
    lines = source.data[start:end].split(b"\n")
    own, outer = source.indent(node) or b"", source.indent(parent) or b""
    text = b"\n".join(outer + line[len(own) :] if line.startswith(own) else line for line in lines)
    for place, name in ((source.line_after(parent), "out-after"), (source.line_start(parent), "out-before")):
        yield Edit("moves", name, 0.45, (site.remove(node), (place, place, text)))


def _unwrap(site: Site) -> Iterator[Edit]:
    """The body of an if or with, without its condition."""
    source, node = site.source, site.node
    if not isinstance(node, (ast.If, ast.With)) or getattr(node, "orelse", None):
        return
    first, last = node.body[0], node.body[-1]
    own, inner = source.indent(node), source.indent(first)
    if own is None or inner is None or source.data[source.start(node) :][:4] == b"elif":
        return
    lines = source.data[source.line_start(first) : source.line_after(last)].split(b"\n")
    text = b"\n".join(own + line[len(inner) :] if line.startswith(inner) else line for line in lines)
    yield Edit("moves", "unwrap", 0.4, ((source.line_start(node), source.line_after(node), text),))


def _copies(site: Site) -> Iterator[Edit]:
    here = site.text(site.node)
    seen = {here}
    for peer in site.peers()[:120]:
        text = site.text(peer)
        if (
            not isinstance(peer, (ast.Expr, ast.Assign, ast.AugAssign))
            or "\n" in text
            or text in seen
            or len(text) > 100
        ):
            continue
        if isinstance(peer, ast.Expr) and not isinstance(peer.value, ast.Call):
            continue
        seen.add(text)
        names = [n.id for n in ast.walk(peer) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        if not site.bound(names):
            continue
        shared = len(set(split_words(text)) & set(site.issue.words))
        weight = 0.15 + 0.15 * min(shared, 3) * (1.0 if names_in(peer) & site.used else 0.6)
        yield site.before("copies", "copy-before", weight, [text])
        if not isinstance(site.node, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            yield site.after("copies", "copy-after", weight, [text])
