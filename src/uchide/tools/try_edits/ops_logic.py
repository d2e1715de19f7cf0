"""Operators on tests: truthiness, boundaries, membership and equality."""

import ast
from typing import Iterator, List

from .site import Site, atom
from .source import Edit

COMPARE = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="),
    ast.Eq: ("!=", "in", ">=", "<="), ast.NotEq: ("==", "not in", ">", "<"),
    ast.Is: ("==", "is not"), ast.IsNot: ("!=", "is"), ast.In: ("not in", "=="), ast.NotIn: ("in", "!="),
}  # fmt: skip


def truthiness(site: Site) -> Iterator[Edit]:
    """`x` against `x is not None`, in tests and in `or` defaults."""
    for node in tested(site):
        text = site.text(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = atom(site.text(node.operand))
            if not isinstance(node.operand, (ast.Compare, ast.BoolOp)):
                yield site.swap("truthiness", "not-to-is-none", 1.0, node, inner + " is None")
                yield site.swap("truthiness", "not-to-is-false", 0.3, node, inner + " is False")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and _is_none(node.comparators[0]):
            left = atom(site.text(node.left))
            if isinstance(node.ops[0], (ast.Is, ast.Eq)):
                yield site.swap("truthiness", "is-none-to-not", 0.9, node, "not " + left)
            else:
                yield site.swap("truthiness", "is-not-none-to-true", 0.9, node, left)
        elif not isinstance(node, (ast.Compare, ast.BoolOp, ast.Constant)):
            yield site.swap("truthiness", "true-to-is-not-none", 1.0, node, atom(text) + " is not None")
    for node in site.exprs:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
            left, right = (atom(site.text(value)) for value in node.values)
            new = "(%s if %s is not None else %s)" % (left, left, right)
            yield site.swap("truthiness", "or-to-if-none", 0.8, node, new)
        if isinstance(node, ast.IfExp) and not isinstance(node.test, (ast.Compare, ast.BoolOp)):
            yield site.swap(
                "truthiness", "true-to-is-not-none", 0.9, node.test, atom(site.text(node.test)) + " is not None"
            )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            if node.func.id in ("any", "all"):
                inner = node.args[0]
                if isinstance(inner, (ast.List, ast.Tuple)):
                    new = ["%s is not None" % atom(site.text(e)) for e in inner.elts]
                    yield site.swap("truthiness", "all-not-none", 0.8, inner, "[" + ", ".join(new) + "]")
                elif not isinstance(inner, ast.GeneratorExp):
                    new_text = "item is not None for item in " + atom(site.text(inner))
                    yield site.swap("truthiness", "all-not-none", 0.9, inner, new_text)
                other = "all" if node.func.id == "any" else "any"
                yield site.swap("truthiness", "any-all", 0.6, node.func, other)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def tested(site: Site) -> List[ast.expr]:
    """Sub-expressions whose truth decides something."""
    found = []  # type: List[ast.expr]
    roots = [getattr(site.node, "test", None)] if site.unit.part is None else []
    roots += [n.test for n in site.exprs if isinstance(n, ast.IfExp)]
    roots += [n for n in site.exprs if isinstance(n, ast.BoolOp)]
    roots += [n for n in site.exprs if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not)]
    roots += [t for n in site.exprs if isinstance(n, (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp))
              for g in n.generators for t in g.ifs]  # fmt: skip
    queue = [node for node in roots if node is not None]
    while queue:
        node = queue.pop(0)
        if node in found:
            continue
        found.append(node)
        if isinstance(node, ast.BoolOp):
            queue.extend(node.values)
    return found


def boundaries(site: Site) -> Iterator[Edit]:
    """Comparison operators, numbers, slices, signs."""
    numbers = _issue_numbers(site)
    for node in site.exprs:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and not isinstance(node.value, bool):
            value = node.value
            for new in [value + 1, value - 1] + [n for n in numbers if n != value][:3]:
                weight = 0.6 if new in numbers else 0.4
                yield site.swap("boundaries", "number", weight, node, atom(repr(new)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield site.swap("boundaries", "flip-bool", 0.6, node, repr(not node.value))
            yield site.swap("boundaries", "bool-to-none", 0.3, node, "None")
        elif isinstance(node, ast.Slice):
            yield from _slices(site, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = site.text(node.left), site.text(node.right)
            sign = "-" if isinstance(node.op, ast.Add) else "+"
            yield site.swap("boundaries", "sign", 0.3, node, "%s %s %s" % (left, sign, atom(right)))
            yield site.swap("boundaries", "drop-term", 0.3, node, left)
            yield site.swap("boundaries", "drop-term", 0.3, node, right)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            sign = "//" if isinstance(node.op, ast.Div) else "/"
            yield site.swap(
                "boundaries",
                "division",
                0.5,
                node,
                "%s %s %s" % (atom(site.text(node.left)), sign, atom(site.text(node.right))),
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("len", "range", "int"):
            yield site.swap("boundaries", "off-by-one", 0.35, node, "(%s - 1)" % site.text(node))
            yield site.swap("boundaries", "off-by-one", 0.35, node, "(%s + 1)" % site.text(node))
            if node.func.id == "range":
                last = node.args[-1] if len(node.args) < 3 else node.args[1]
                yield site.swap("boundaries", "range-end", 0.6, last, site.text(last) + " + 1")
                yield site.swap("boundaries", "range-end", 0.6, last, site.text(last) + " - 1")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield site.swap("boundaries", "min-max", 0.5, node.func, "max" if node.func.id == "min" else "min")
    for node in site.exprs:
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        ):
            for sign in COMPARE[type(node.ops[0])]:
                weight = 0.8 if "=" in sign or sign in "<>" else 0.4
                yield site.swap("boundaries", "compare", weight, node, _compare(site, node, sign))


def _compare(site: Site, node: ast.Compare, sign: str) -> str:
    return "%s %s %s" % (site.text(node.left), sign, site.text(node.comparators[0]))


def _slices(site: Site, node: ast.Slice) -> Iterator[Edit]:
    lower = site.text(node.lower) if node.lower is not None else ""
    upper = site.text(node.upper) if node.upper is not None else ""
    if node.step is not None or not (lower or upper):
        return
    for low, high in (
        (lower, ""),
        ("", upper),
        (lower + " + 1" if lower else "1", upper),
        (lower, upper + " + 1" if upper else "-1"),
    ):
        if (low, high) != (lower, upper):
            yield site.swap("boundaries", "slice", 0.4, node, low + ":" + high)


def _issue_numbers(site: Site) -> List[int]:
    import re

    text = site.issue.statement + " " + site.issue.expected
    return sorted({int(n) for n in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", text)})[:6]


def membership(site: Site) -> Iterator[Edit]:
    """Equality, membership, identity and type tests."""
    for node in site.exprs:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            kind = type(node.ops[0])
            left, right = node.left, node.comparators[0]
            if kind in (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn):
                for sign in COMPARE[kind]:
                    yield site.swap("membership", "compare", 0.6, node, _compare(site, node, sign))
            if kind in (ast.In, ast.NotIn):
                yield from _membership_of_text(site, node, left, right)
            if kind in (ast.Eq, ast.NotEq, ast.In, ast.NotIn) and not _is_none(right):
                for method in ("lower", "strip"):
                    yield site.swap(
                        "membership", "fold-" + method, 0.3, left, "%s.%s()" % (atom(site.text(left)), method)
                    )
            if (
                isinstance(left, ast.Call)
                and isinstance(left.func, ast.Name)
                and left.func.id == "type"
                and kind in (ast.Eq, ast.Is)
            ):
                new = (
                    "isinstance(%s, %s)" % (site.text(left.args[0]), site.text(right)) if left.args else site.text(node)
                )
                yield site.swap("membership", "type-to-isinstance", 0.9, node, new)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from _type_tests(site, node)


def _membership_of_text(site: Site, node: ast.Compare, left: ast.expr, right: ast.expr) -> Iterator[Edit]:
    negative = isinstance(node.ops[0], ast.NotIn)
    a, b = atom(site.text(left)), atom(site.text(right))
    one = "%s %s %s" % (a, "!=" if negative else "==", b)
    new = "(%s if isinstance(%s, str) else %s)" % (one, b, site.text(node))
    yield site.swap("membership", "text-or-collection", 0.8, node, new)
    yield site.swap("membership", "one-element", 0.6, right, "[%s]" % site.text(right))
    if isinstance(right, (ast.Tuple, ast.List, ast.Set)) and right.elts:
        for text in site.issue.strings[:6]:
            if isinstance(right.elts[0], ast.Constant) and isinstance(right.elts[0].value, str) and len(text) < 20:
                yield site.swap(
                    "membership", "add-member", 0.5, right.elts[-1], "%s, %r" % (site.text(right.elts[-1]), text)
                )
        yield site.swap("membership", "add-none", 0.5, right.elts[-1], site.text(right.elts[-1]) + ", None")
    yield site.swap("membership", "reverse", 0.3, node, "%s %s %s" % (b, "not in" if negative else "in", a))


def _type_tests(site: Site, node: ast.Call) -> Iterator[Edit]:
    if len(node.args) != 2:
        return
    value, types = node.args
    name = node.func.id  # type: ignore[attr-defined]
    text = site.text(types)
    for extra in ("str", "bytes", "int", "float", "list", "tuple", "dict", "set", "type(None)"):
        if extra not in text:
            joined = (
                text[:-1].rstrip(", ") + ", %s)" % extra if isinstance(types, ast.Tuple) else "(%s, %s)" % (text, extra)
            )
            yield site.swap("membership", "more-types", 0.35, types, joined)
    if name == "issubclass":
        a = site.text(value)
        yield site.swap("membership", "class-first", 0.7, node, "(isinstance(%s, type) and %s)" % (a, site.text(node)))
        yield site.swap("membership", "instance", 0.5, node, "isinstance(%s, %s)" % (a, text))
        yield site.swap("membership", "type-of", 0.5, value, "type(%s)" % a)
    elif not isinstance(types, ast.Tuple):
        yield site.swap("membership", "exact-type", 0.4, node, "type(%s) is %s" % (site.text(value), text))
