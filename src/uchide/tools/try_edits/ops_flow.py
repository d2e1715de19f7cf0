"""Operators on control flow: exceptions, guards, returns, checks like their neighbours, moved and copied statements."""

import ast
import re
from typing import Iterator, List, Optional, Tuple

from .issue import split_words
from .ops_logic import conditions
from .site import Site, atom
from .source import FUNCTIONS, Edit, names_in, statements

SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Delete, ast.Raise, ast.Assert)
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
    for text in _raises(site):
        yield text, 1.0
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


def _raises(site: Site) -> List[str]:
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


def guards(site: Site) -> Iterator[Edit]:
    """Ask a condition first: leave early, or run the statement only if it holds."""
    if not site.statement_level or site.function is None or isinstance(site.node, FUNCTIONS + (ast.ClassDef,)):
        return
    actions = [("return " + value if value else "return", weight) for value, weight in return_values(site)][:6]
    if site.source.loop(site.node):
        actions += [("continue", 0.6), ("break", 0.3)]
    if site.issue.expected_exceptions:
        actions = [(text, 0.9) for text in _raises(site)[-2:]] + actions
    chained = site.source.data[site.source.start(site.node) :][:4] == b"elif"
    if chained:
        return
    for condition, weight in conditions(site)[:24]:
        if not (names_of(condition) & (site.used | {"self"})):
            weight *= 0.5
        if not isinstance(site.node, (ast.Return, ast.Raise)):
            yield site.wrap("guards", "only-if", 0.9 * weight, "if %s:" % condition)
        for action, action_weight in actions:
            if action.startswith("raise ") and not set(re.findall(r"\w+", condition)) & set(re.findall(r"\w+", action)):
                action_weight *= 0.4
            lines = ["if %s:" % condition, "\t" + action]
            yield site.before("guards", "leave-if", 1.1 * weight * action_weight, lines)


def names_of(text: str) -> set:
    try:
        return names_in(ast.parse(text, mode="eval"))
    except SyntaxError:
        return set()


def returns(site: Site) -> Iterator[Edit]:
    """What is returned, and whether."""
    node = site.node
    if isinstance(node, ast.Return):
        value = node.value
        text = site.text(value) if value is not None else "None"
        if value is not None:
            for form, weight in (
                ("bool(%s)", 0.6),
                ("not %s", 0.3),
                ("%s or None", 0.4),
                ("list(%s)", 0.3),
                ("str(%s)", 0.3),
                ("tuple(%s)", 0.25),
                ("iter(%s)", 0.2),
            ):
                yield site.swap("returns", form.split("(")[0].strip("% s") or "wrap", weight, value, form % atom(text))
            for other, weight in return_values(site):
                if other and other != text:
                    yield site.swap("returns", "other-value", 0.5 * weight, value, other)
            for name in site.scope():
                if name != text:
                    yield site.swap("returns", "other-name", 0.4, value, name)
        else:
            for other, weight in return_values(site):
                yield site.swap("returns", "give-value", 0.6 * weight, node, "return " + other)
    if isinstance(node, FUNCTIONS) and site.statement_level is not None:
        yield from _final_returns(site)


def _final_returns(site: Site) -> Iterator[Edit]:
    """A value at the end of a function that falls off its end."""
    node = site.node
    last = node.body[-1]
    if isinstance(last, (ast.Return, ast.Raise)) or site.source.indent(last) is None:
        return
    end = site.source.line_after(last)
    names = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
    for value, weight in [("False", 0.5), ("True", 0.4), ("None", 0.1), ('""', 0.3), ("self", 0.3)] + [
        (n, 0.3) for n in names[:2]
    ]:
        block = site.source.block(["return " + value], site.source.indent(last) or b"")
        yield Edit("returns", "final-return", weight, ((end, end, block),))


def like_checks(site: Site) -> Iterator[Edit]:
    """A further check like one that stands here: its words replaced by those of the issue, its message by the expected one."""
    node = site.node
    if not site.statement_level or not isinstance(node, ast.If) or len(node.body) != 1 or node.orelse:
        return
    inner = node.body[0]
    if (
        not isinstance(inner, (ast.Raise, ast.Return, ast.Expr))
        or site.source.data[site.source.start(node) :][:4] == b"elif"
    ):
        return
    names = [
        n
        for n in [*site.scope(), *_self_attributes(site)]
        if n.split(".")[-1] in site.issue.identifiers or set(split_words(n)) & set(site.issue.words)
    ]
    names = sorted(names, key=lambda n: n.split(".")[-1] not in site.issue.identifiers)
    messages = [s for s in site.issue.strings if " " in s and s not in site.issue.missing][:2]
    body = site.text(inner)
    bodies = [body]
    strings = [
        n
        for n in ast.walk(inner)
        if isinstance(n, (ast.JoinedStr, ast.Constant)) and isinstance(getattr(n, "value", ""), str)
    ]
    if isinstance(inner, ast.Raise) and strings:
        bodies = [body.replace(site.text(strings[0]), repr(message)) for message in messages] + bodies
    if isinstance(inner, ast.Raise) and "\n" in body:
        call = site.text(inner.exc.func) if isinstance(inner.exc, ast.Call) else None
        bodies = ["raise %s(%r)" % (call, message) for message in messages] if call else []
    said = set(re.findall(r"\w+", " ".join(messages)))
    names = sorted(names, key=lambda n: n.split(".")[-1] not in said)[:6]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if a.split(".")[-1] != b.split(".")[-1]]
    tests = ["%s and %s" % pair for pair in pairs] + names
    for index, text in enumerate(bodies):
        if "\n" in text:
            continue
        for condition in tests:
            weight = (0.9 if index < len(messages) and messages else 0.4) * (1.0 if " and " in condition else 0.8)
            weight *= 1.0 if not said or all(n.split(".")[-1] in said for n in condition.split(" and ")) else 0.3
            yield site.after("like-checks", "new-check", weight, ["if %s:" % condition, "\t" + text])


def _self_attributes(site: Site) -> List[str]:
    found = []
    for peer in [site.function] if site.function is not None else []:
        for node in ast.walk(peer):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                text = "self." + node.attr
                if text not in found:
                    found.append(text)
    return found


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
        weight = 0.15 + 0.2 * min(shared, 4) * (1.0 if names_in(peer) & site.used else 0.6)
        yield site.before("copies", "copy-before", weight, [text])
        if not isinstance(site.node, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            yield site.after("copies", "copy-after", weight, [text])
