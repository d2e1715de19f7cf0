"""Operators on boolean structure, and the conditions that can be asked at a place."""

import ast
from typing import Iterator, List

from .ops_logic import tested
from .site import Site, atom
from .source import Edit, subscript_key


def booleans(site: Site) -> Iterator[Edit]:
    """and/or, negation, dropped and added parts, elif to if."""
    for node in tested(site):
        if isinstance(node, ast.BoolOp):
            yield from _bool_op(site, node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield site.swap("booleans", "drop-not", 0.5, node, site.text(node.operand))
        elif not isinstance(node, ast.BoolOp):
            yield site.swap("booleans", "negate", 0.5, node, "not " + atom(site.text(node)))
    if site.unit.part is None and isinstance(site.node, (ast.If, ast.While)):
        test = site.node.test
        text = site.text(test)
        for condition, weight in conditions(site):
            if condition in text:
                continue
            yield site.swap("booleans", "and-part", weight, test, "%s and %s" % (_part(test, text, ast.Or), condition))
            yield site.swap("booleans", "or-part", 0.8 * weight, test, "%s or %s" % (text, condition))
        yield from _constant_tests(site, test)
        yield from _else_if(site)


def _constant_tests(site: Site, test: ast.expr) -> Iterator[Edit]:
    yield site.swap("booleans", "always", 0.25, test, "True")
    if isinstance(site.node, ast.If):
        yield site.swap("booleans", "never", 0.25, test, "False")


def _part(node: ast.expr, text: str, looser: type) -> str:
    loose = isinstance(node, ast.BoolOp) and isinstance(node.op, looser) or isinstance(node, (ast.IfExp, ast.Lambda))
    return "(" + text + ")" if loose else text


def _bool_op(site: Site, node: ast.BoolOp) -> Iterator[Edit]:
    word = "and" if isinstance(node.op, ast.And) else "or"
    other = "or" if word == "and" else "and"
    parts = [site.text(value) for value in node.values]
    yield site.swap("booleans", "and-or", 0.8, node, "(" + (" %s " % other).join(atom(p) for p in parts) + ")")
    for index in range(len(parts)):
        rest = parts[:index] + parts[index + 1 :]
        joined = (" %s " % word).join(rest)
        yield site.swap("booleans", "drop-part", 0.85, node, joined if len(rest) == 1 else "(" + joined + ")")
        negated = parts[:index] + ["not " + atom(parts[index])] + parts[index + 1 :]
        yield site.swap("booleans", "negate-part", 0.4, node, "(" + (" %s " % word).join(negated) + ")")
    for index, value in enumerate(node.values):
        if word == "or" and isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And):
            tail = [site.text(v) for v in value.values]
            rest = parts[:index] + ["(" + tail[0]]
            if index:
                new = "(" + " or ".join(parts[:index] + [tail[0]]) + ") and " + " and ".join(tail[1:])
                if index + 1 < len(parts):
                    new = "(" + new + ") or " + " or ".join(parts[index + 1 :])
                yield site.swap("booleans", "regroup", 0.8, node, "(" + new + ")")
            if index + 1 < len(parts):
                new = " and ".join(tail[:-1]) + " and (" + " or ".join([tail[-1]] + parts[index + 1 :]) + ")"
                yield site.swap("booleans", "regroup", 0.8, node, "(" + " or ".join(parts[:index] + [new]) + ")")


def conditions(site: Site) -> List["tuple"]:
    """Plain conditions that can be asked here, with weights: about the names in use, and those asked nearby."""
    return site.once(("conditions", id(site.node)), lambda: list(_conditions(site)))


def _conditions(site: Site) -> Iterator["tuple"]:
    subscripts = _looked_up(site)
    for container, key in subscripts:
        yield "%s in %s" % (key, container), 0.7
    for name in site.scope()[:6]:
        used = 1.0 if name in site.used else 0.5
        kinds = site.kinds(name)
        yield name, (0.6 if any(k.startswith("empty") or k in ("None", "False") for k in kinds) else 0.4) * used
        yield name + " is not None", (0.7 if "None" in kinds else 0.3) * used
        yield "not " + name, 0.35 * used
        yield name + " is None", (0.5 if "None" in kinds else 0.2) * used
        for kind in ("str", "bytes", "list", "dict", "tuple"):
            if kind in kinds or "empty " + kind in kinds:
                yield "isinstance(%s, %s)" % (name, kind), 0.35 * used
                yield "not isinstance(%s, %s)" % (name, kind), 0.35 * used
    seen = set()
    for peer in site.peers()[:80]:
        test = getattr(peer, "test", None)
        if test is None or not isinstance(peer, (ast.If, ast.While)):
            continue
        parts = test.values if isinstance(test, ast.BoolOp) else [test]
        for part in parts:
            text = site.text(part)
            names = [n.id for n in ast.walk(part) if isinstance(n, ast.Name)]
            if text not in seen and "\n" not in text and len(text) < 60 and site.bound(names):
                seen.add(text)
                yield text, 0.4
                yield (
                    (text[4:] if text.startswith("not ") and isinstance(part, ast.UnaryOp) else "not " + atom(text)),
                    0.35,
                )


def _looked_up(site: Site) -> List["tuple"]:
    """(container, key) of every subscript, plus parameters that may be keys of the object itself."""
    found = []
    for node in ast.walk(site.node):
        if isinstance(node, ast.Subscript) and subscript_key(node) is not None:
            key = subscript_key(node)
            pair = (site.text(node.value), site.text(key))
            if isinstance(key, (ast.Name, ast.Attribute)) and pair not in found:
                found.append(pair)
        elif isinstance(node, ast.Call) and site.klass is not None:
            for arg in node.args:
                if (
                    isinstance(arg, ast.Name)
                    and arg.id in site.arguments()
                    and ("self", arg.id) not in found
                    and _container(site)
                ):
                    found.append(("self", arg.id))
    if site.klass is not None and _container(site):
        for _, key in list(found):
            if ("self", key) not in found:
                found.insert(0, ("self", key))
    return found[:4]


def _container(site: Site) -> bool:
    names = {n.name for n in site.klass.body if isinstance(n, (ast.FunctionDef,))}
    return bool(names & {"__contains__", "__getitem__", "__setitem__"})


def _else_if(site: Site) -> Iterator[Edit]:
    """`elif` becomes an independent `if`, and the other way round."""
    node = site.node
    if not isinstance(node, ast.If):
        return
    source = site.source
    start = source.start(node)
    parent = source.parents.get(node)
    chained = isinstance(parent, ast.If) and parent.orelse == [node]
    if chained and source.data[start : start + 4] == b"elif":
        yield Edit("booleans", "elif-to-if", 0.9, ((start, start + 4, b"if"),))
    child = node.orelse[0] if len(node.orelse) == 1 else None
    if isinstance(child, ast.If):
        inner = source.start(child)
        if source.data[inner : inner + 4] == b"elif":
            yield Edit("booleans", "elif-to-if", 0.9, ((inner, inner + 4, b"if"),))
    block = source.siblings(node)
    index = block.index(node) if node in block else 0
    if (
        index
        and isinstance(block[index - 1], ast.If)
        and not block[index - 1].orelse
        and source.data[start : start + 3] == b"if "
    ):
        yield Edit("booleans", "if-to-elif", 0.6, ((start, start + 2, b"elif"),))
