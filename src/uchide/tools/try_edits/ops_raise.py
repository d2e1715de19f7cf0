"""Operators on exceptions, and what a statement nearby could raise or return instead."""

import ast
from typing import Iterator, List, Optional, Tuple

from .issue import split_words
from .site import Site
from .source import FUNCTIONS, Edit, statements

KIN = {
    "ValueError": ("TypeError", "OverflowError", "AttributeError"), "TypeError": ("ValueError", "AttributeError"),
    "KeyError": ("IndexError", "TypeError", "AttributeError"), "IndexError": ("KeyError", "ValueError"),
    "AttributeError": ("TypeError", "KeyError"), "ImportError": ("AttributeError", "OSError"),
    "OSError": ("ValueError", "UnicodeError"), "UnicodeDecodeError": ("UnicodeError", "LookupError"),
    "OverflowError": ("ValueError", "OSError"), "StopIteration": ("IndexError",),
}  # fmt: skip


def raised_here(site: Site) -> List[Tuple[str, float]]:
    """Exception types worth catching at this statement."""
    found = [(kind, 1.0 if kind in site.issue.exceptions else 0.6) for kind in site.unit.raised]
    return found or [(kind, 0.12) for kind in site.issue.exceptions[:2]]


def exceptions(site: Site) -> Iterator[Edit]:
    """Catch more, catch here, translate, raise another type."""
    node = site.node
    if site.unit.part is not None:
        return
    if isinstance(node, ast.Try):
        yield from _handlers(site, node)
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield from _raise_types(site, node)
    if not site.statement_level or site.function is None or isinstance(node, FUNCTIONS + (ast.ClassDef, ast.Raise)):
        return
    for kind, weight in raised_here(site)[:3]:
        types = _with_kin(kind)
        for action, action_weight in _handler_actions(site):
            name = "catch-" + action.split()[0]
            after = ["except %s:" % types, "\t" + action]
            if action.startswith("raise "):
                after = ["except %s as exc:" % types, "\t" + action + ("" if " from " in action else " from exc")]
            yield site.wrap("exceptions", name, weight * action_weight, "try:", after)


def _with_kin(kind: str) -> str:
    kin = KIN.get(kind, ())[:2]
    return "(%s)" % ", ".join((kind,) + kin) if kind in ("ValueError", "OverflowError", "OSError") else kind


def _handlers(site: Site, node: ast.Try) -> Iterator[Edit]:
    extra = list(site.issue.exceptions)
    inside = [kind for kind in site.unit.raised if kind not in extra]
    for handler in node.handlers:
        if handler.type is None:
            continue
        text = site.text(handler.type)
        last = text.split(".")[-1].strip("()")
        for kind in (extra + inside + list(KIN.get(last, ())))[:6]:
            if kind in text:
                continue
            joined = (
                text[:-1].rstrip(", ") + ", %s)" % kind
                if isinstance(handler.type, ast.Tuple)
                else "(%s, %s)" % (text, kind)
            )
            yield site.swap("exceptions", "catch-more", 0.9 if kind in extra else 0.4, handler.type, joined)
        yield site.swap("exceptions", "catch-all", 0.3, handler.type, "Exception")


def _raise_types(site: Site, node: ast.Raise) -> Iterator[Edit]:
    target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    for kind in (site.issue.expected_exceptions + site.issue.exceptions)[:4]:
        if kind != site.text(target).split(".")[-1]:
            yield site.swap("exceptions", "raise-other", 0.7, target, kind)


def _handler_actions(site: Site) -> Iterator[Tuple[str, float]]:
    node = site.node
    for text in raises(site):
        said = sum(site.issue.words.get(word, 0.0) for word in set(split_words(text)))
        yield text, 0.5 + 0.1 * min(said, 12.0)
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = site.text(node.targets[0])
        for value in ("None", '""', "[]", "{}", "0", "False"):
            yield "%s = %s" % (target, value), 0.5 if value == "None" else 0.3
        for name in [n for n in site.scope() if n in site.used and n != target][:3]:
            yield "%s = %s" % (target, name), 0.4
    else:
        yield "pass", 0.7
    for value, weight in return_values(site):
        yield ("return " + value).strip(), weight
    if site.source.loop(node):
        yield "continue", 0.6
        yield "break", 0.3


def raises(site: Site) -> List[str]:
    """Raise statements of the function and class whose names exist here, nearest first."""
    found = []  # type: List[str]
    for peer in site.peers():
        if isinstance(peer, ast.Raise) and peer.exc is not None:
            text = site.text(peer.exc)
            names = [n.id for n in ast.walk(peer.exc) if isinstance(n, ast.Name)]
            handler = _handler_name(site, peer)
            text = "raise " + text
            if (
                text not in found
                and "\n" not in text
                and (site.bound([n for n in names if n != handler]))
                and handler not in names
            ):
                found.append(text)
    for kind in site.issue.expected_exceptions[:2]:
        message = next((s for s in site.issue.strings if s not in site.issue.missing), "")
        found.append("raise %s(%r)" % (kind, message))
    return found[:6]


def _handler_name(site: Site, node: ast.AST) -> Optional[str]:
    while node in site.source.parents:
        node = site.source.parents[node]
        if isinstance(node, ast.ExceptHandler):
            return node.name
    return None


def return_values(site: Site) -> Iterator[Tuple[str, float]]:
    """What an early return here could give back."""
    if site.function is None or site.function.name == "__init__":
        yield "", 0.4
        return
    seen = set()
    own = [
        n for n in statements(site.function) if isinstance(n, ast.Return) and site.source.function(n) is site.function
    ]
    for node in own:
        text = site.text(node.value) if node.value is not None else "None"
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        if text not in seen and "\n" not in text and len(text) < 60 and site.bound(names):
            seen.add(text)
            yield text, 0.6
    args = [name for name in site.arguments() if name in site.used] + site.arguments()[:2]
    for text, weight in [("None", 0.6), ("False", 0.35), ("True", 0.3), ('""', 0.25), ("[]", 0.25)] + [
        (a, 0.35) for a in args[:3]
    ]:
        if text not in seen:
            seen.add(text)
            yield text, weight
