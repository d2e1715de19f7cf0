"""Operators on control flow: guards, returns, checks like their neighbours."""

import ast
import re
from typing import Iterator, List

from .issue import split_words
from .ops_bool import conditions
from .ops_raise import raises, return_values
from .site import Site, atom
from .source import FUNCTIONS, Edit, names_in


def guards(site: Site) -> Iterator[Edit]:
    """Ask a condition first: leave early, or run the statement only if it holds."""
    if not site.statement_level or site.function is None or isinstance(site.node, FUNCTIONS + (ast.ClassDef,)):
        return
    actions = [("return " + value if value else "return", weight) for value, weight in return_values(site)][:6]
    if site.source.loop(site.node):
        actions += [("continue", 0.6), ("break", 0.3)]
    if site.issue.expected_exceptions:
        actions = [(text, 0.9) for text in raises(site)[-2:]] + actions
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
    """A further check like one that stands here, in the words of the issue and with the message that is expected."""
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
