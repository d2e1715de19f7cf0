"""Operators on values: names, attributes, calls and their arguments, defaults, normalisation, wrapping."""

import ast
from typing import Dict, Iterator, List, Tuple

from .site import Site, atom
from .source import FUNCTIONS, Edit, stored_names, subscript_key

METHODS = (
    ("lower", "upper", "casefold", "title", "capitalize"), ("strip", "rstrip", "lstrip"), ("find", "rfind", "index"),
    ("split", "rsplit", "splitlines"), ("partition", "rpartition"), ("append", "extend", "insert"),
    ("keys", "values", "items"), ("startswith", "endswith"), ("match", "search", "fullmatch"),
    ("get", "pop", "setdefault"), ("add", "update"), ("sub", "subn"),
    ("isdigit", "isdecimal", "isnumeric", "isalnum"), ("encode", "decode"), ("group", "groups"), ("remove", "discard"),
    ("join", "replace"), ("read", "readline", "readlines"), ("start", "end"),
)  # fmt: skip
WRAPPERS = ("str", "list", "bool", "tuple", "int", "sorted", "set", "repr", "float", "dict", "abs", "round")
LETTER_METHODS = ("strip()", "lower()", "copy()", "rstrip()", "lstrip()")


def names(site: Site) -> Iterator[Edit]:
    """Another variable, another attribute, another method of the same kind."""
    scope = site.scope()
    for node in site.exprs:
        if isinstance(node, ast.Name) and node.id in scope:
            for other in scope[:8]:
                if other != node.id:
                    yield site.swap("names", "other-variable", 0.35, node, other)
        elif isinstance(node, ast.Attribute):
            yield from _attributes(site, node)
    if isinstance(site.node, ast.Assign) and site.unit.part is None and isinstance(site.node.targets[0], ast.Name):
        for other in scope[:6]:
            if other != site.node.targets[0].id:
                yield site.swap("names", "other-target", 0.25, site.node.targets[0], other)


def _attributes(site: Site, node: ast.Attribute) -> Iterator[Edit]:
    base = site.text(node.value)
    called = isinstance(site.source.parents.get(node), ast.Call) and site.source.parents[node].func is node
    for group in METHODS:
        if called and node.attr in group:
            for other in group:
                if other != node.attr:
                    yield site.swap("names", "other-method", 0.5, node, "%s.%s" % (base, other))
    where = site.klass if site.klass is not None else site.source.tree
    known = site.once(("attributes", id(where)), lambda: _known_attributes(site, where))
    for attribute in known.get((called, base), [])[:12]:
        if attribute != node.attr:
            weight = 0.6 if attribute in site.issue.identifiers else 0.3
            yield site.swap("names", "other-attribute", weight, node, "%s.%s" % (base, attribute))


def _known_attributes(site: Site, where: ast.AST) -> Dict[Tuple[bool, str], List[str]]:
    """Attributes seen on each object, apart for those called and those read."""
    found = {}  # type: Dict[Tuple[bool, str], List[str]]
    for peer in ast.walk(where):
        if isinstance(peer, ast.Attribute):
            parent = site.source.parents.get(peer)
            called = isinstance(parent, ast.Call) and parent.func is peer
            names = found.setdefault((called, site.text(peer.value)), [])
            if peer.attr not in names:
                names.append(peer.attr)
    return found


def arguments(site: Site) -> Iterator[Edit]:
    """Drop, swap and add call arguments."""
    for node in site.exprs:
        if not isinstance(node, ast.Call):
            continue
        parts = [site.text(arg) for arg in node.args]
        keys = [(k.arg, site.text(k.value)) for k in node.keywords]
        for index in range(len(parts)):
            yield site.swap("arguments", "drop", 0.3, node, _call(site, node, parts[:index] + parts[index + 1 :], keys))
        for index in range(len(parts) - 1):
            swapped = parts[:index] + [parts[index + 1], parts[index]] + parts[index + 2 :]
            yield site.swap("arguments", "swap", 0.35, node, _call(site, node, swapped, keys))
        for index in range(len(keys)):
            yield site.swap(
                "arguments", "drop-keyword", 0.4, node, _call(site, node, parts, keys[:index] + keys[index + 1 :])
            )
        yield from _missing(site, node, parts, keys)


def _call(site: Site, node: ast.Call, parts: List[str], keys: List[Tuple[str, str]]) -> str:
    made = list(parts)
    made += ["%s=%s" % (key, value) if key is not None else "**" + value for key, value in keys]
    return "%s(%s)" % (site.text(node.func), ", ".join(made))


def _missing(site: Site, node: ast.Call, parts: List[str], keys: List[Tuple[str, str]]) -> Iterator[Edit]:
    """Parameters of the called function that this call leaves out."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = {key for key, _ in keys}
    seen = set()
    for signature in site.repo.signatures.get(name, [])[:3]:
        all_args = [a for a in signature.args if a.arg not in ("self", "cls")]
        for arg in all_args[len(parts) :] + signature.kwonlyargs:
            if arg.arg in given or arg.arg in seen:
                continue
            seen.add(arg.arg)
            values = [arg.arg] if arg.arg in site.scope() else []
            values += (
                ["self." + arg.arg]
                if site.klass is not None and ("self.%s" % arg.arg).encode() in site.source.data
                else []
            )
            for value in values:
                yield site.swap("arguments", "pass-on", 0.8, node, _call(site, node, parts, keys + [(arg.arg, value)]))
            for value in ("True", "False", "None"):
                yield site.swap("arguments", "set", 0.3, node, _call(site, node, parts, keys + [(arg.arg, value)]))


def defaults(site: Site) -> Iterator[Edit]:
    """Answers for the missing: defaults of parameters, of get, max, next and getattr."""
    if isinstance(site.node, FUNCTIONS):
        arguments_ = site.node.args
        for value in list(arguments_.defaults) + [d for d in arguments_.kw_defaults if d is not None]:
            for text in ("None", "True", "False", '""', "()", "0", "1"):
                if text != site.text(value):
                    yield site.swap("defaults", "parameter", 0.35, value, text)
        return
    for node in site.exprs:
        if isinstance(node, ast.Call):
            yield from _call_defaults(site, node)
        elif isinstance(node, ast.Subscript) and subscript_key(node) is not None:
            inner = subscript_key(node)
            base, key = site.text(node.value), site.text(inner)
            for value in ("None", '""', "[]", "{}", "0", key):
                weight = 0.5 if value == "None" else 0.25
                yield site.swap("defaults", "get", weight, node, "%s.get(%s, %s)" % (base, key, value))
            if isinstance(inner, ast.Constant) and inner.value in (0, -1):
                yield site.swap("defaults", "first-or-none", 0.5, node, "(%s[%s] if %s else None)" % (base, key, base))


def _call_defaults(site: Site, node: ast.Call) -> Iterator[Edit]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    parts = [site.text(arg) for arg in node.args]
    keys = [(k.arg, site.text(k.value)) for k in node.keywords]
    given = {key for key, _ in keys}
    if name in ("max", "min") and len(parts) == 1 and "default" not in given:
        inner = [
            "(" + parts[0] + ")"
            if isinstance(node.args[0], ast.GeneratorExp) and not parts[0].startswith("(")
            else parts[0]
        ]
        for value in ("None", "0", '""'):
            yield site.swap(
                "defaults",
                "of-empty",
                1.0 if value == "None" else 0.5,
                node,
                _call(site, node, inner, keys + [("default", value)]),
            )
    if name in ("next", "getattr", "get", "pop", "sum") and len(parts) == (2 if name == "getattr" else 1):
        for value in ("None", '""', "[]", "{}", "False", "0", "()"):
            weight = 0.8 if value == "None" else 0.35
            yield site.swap("defaults", "of-missing", weight, node, _call(site, node, parts + [value], keys))
    if name in ("get", "pop", "getattr", "next") and len(parts) >= 2:
        for value in ("None", '""', "[]", "{}", "False", "True", "0"):
            if value != parts[-1]:
                yield site.swap("defaults", "other-default", 0.4, node, _call(site, node, parts[:-1] + [value], keys))


def normalise(site: Site) -> Iterator[Edit]:
    """Bring a value into form before the statement that uses it."""
    if not site.statement_level or site.function is None or isinstance(site.node, FUNCTIONS + (ast.ClassDef,)):
        return
    if site.source.data[site.source.start(site.node) :][:4] == b"elif":
        return
    for name in [n for n in site.scope() if n in site.used][:4]:
        kinds = site.kinds(name)
        text = not kinds or any(k.endswith(("str", "bytes")) for k in kinds)
        forms = [("if isinstance({0}, str):", "\t{0} = [{0}]", 0.6 if text else 0.2)]
        if "None" in kinds or not kinds:
            forms += [("if {0} is None:", "\t{0} = %s" % v, 0.5) for v in ('""', "[]", "{{}}", "0", "()")]
        if text:
            forms += [("{0} = {0}.%s" % m, "", 0.45) for m in ("strip()", "lower()", "rstrip()")]
            forms += [("{0} = %s" % v, "", 0.3) for v in ("str({0})", "{0} or None")]
            forms += [
                ("if not {0}:", "\t{0} = %r" % s, 0.25)
                for s in site.issue.strings[:5]
                if len(s) < 12 and "{" not in s and "}" not in s
            ]
        else:
            forms += [("{0} = %s({0})" % v, "", 0.35) for v in ("list", "str", "int", "tuple", "dict")]
        forms += [("if isinstance({0}, bytes):", "\t{0} = {0}.decode()", 0.3)]
        for first, second, weight in forms:
            lines = [line.format(name) for line in (first, second) if line]
            yield site.before("normalise", "before-use", weight, lines)


def short_values(site: Site) -> Iterator[Edit]:
    """Fill or cut a sequence to the length of another in scope."""
    if not site.statement_level or site.function is None:
        return
    scope = site.scope()
    own = [n for n in stored_names(site.function) if n in site.used and n in scope][:3]
    for name in own:
        for other in [n for n in scope if n != name][:4]:
            for fill in ("None", '""'):
                line = "%s = list(%s) + [%s] * (len(%s) - len(%s))" % (name, name, fill, other, name)
                yield site.before("lengths", "fill", 0.2, [line])
            yield site.before("lengths", "cut", 0.15, ["%s = %s[:len(%s)]" % (name, name, other)])


def wrapping(site: Site) -> Iterator[Edit]:
    """A call put around a value, or taken away."""
    for node in site.exprs:
        parent = site.source.parents.get(node)
        if isinstance(node, ast.Call):
            if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred):
                yield site.swap("wrapping", "unwrap", 0.4, node, atom(site.text(node.args[0])))
            if isinstance(node.func, ast.Attribute):
                yield site.swap("wrapping", "drop-method", 0.4, node, site.text(node.func.value))
        if isinstance(node, ast.IfExp):
            yield site.swap("wrapping", "always", 0.4, node, atom(site.text(node.body)))
            yield site.swap("wrapping", "never", 0.4, node, atom(site.text(node.orelse)))
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or isinstance(
            parent, (ast.Attribute, ast.keyword)
        ):
            continue
        if (
            isinstance(parent, ast.Call)
            and parent.func is node
            or (isinstance(parent, ast.Call) and site.text(parent.func) in WRAPPERS)
        ):
            continue
        text = site.text(node)
        for wrapper in WRAPPERS:
            yield site.swap("wrapping", wrapper, 0.22, node, "%s(%s)" % (wrapper, text))
        for method in LETTER_METHODS:
            yield site.swap("wrapping", method[:-2], 0.22, node, "%s.%s" % (text, method))
        yield site.swap("wrapping", "or-empty", 0.25, node, "(%s or '')" % text)
        yield site.swap("wrapping", "or-empty", 0.25, node, "(%s or ())" % text)
        yield from _known_wrappers(site, node, text)


def _known_wrappers(site: Site, node: ast.expr, text: str) -> Iterator[Edit]:
    """One-argument functions that the file calls elsewhere on such a value."""
    for name in site.once(("calls", site.source.path), lambda: _calls(site)).get(text, []):
        if site.bound([name.split(".")[0]]):
            yield site.swap("wrapping", "known", 0.4, node, "%s(%s)" % (name, text))


def _calls(site: Site) -> Dict[str, List[str]]:
    """Names of the functions called with one argument, by the text of the argument."""
    found = {}  # type: Dict[str, List[str]]
    for peer in ast.walk(site.source.tree):
        if isinstance(peer, ast.Call) and len(peer.args) == 1 and not peer.keywords:
            name, text = site.text(peer.func), site.text(peer.args[0])
            if name not in WRAPPERS and len(name) <= 30 and "\n" not in name and "(" not in name:
                if name not in found.setdefault(text, []):
                    found[text].append(name)
    return found


def class_level(site: Site) -> Iterator[Edit]:
    """A public, read-only name for a private attribute that the issue asks for by its public name."""
    if site.klass is None or site.function is None:
        return
    indent = site.source.indent(site.function)
    if indent is None or site.unit.part is not None:
        return
    defined = {n.name for n in site.klass.body if isinstance(n, FUNCTIONS)}
    wanted = site.issue.identifiers | {s for s in site.issue.strings if s.isidentifier()}
    for node in ast.walk(site.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            public = node.attr.lstrip("_")
            if node.attr.startswith("_") and public in wanted and public not in defined:
                end = site.source.line_after(site.function)
                lines = ["", "@property", "def %s(self):" % public, "\treturn self.%s" % node.attr]
                yield Edit("class-level", "property", 0.9, ((end, end, site.source.block(lines, indent)),))
