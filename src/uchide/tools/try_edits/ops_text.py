"""Operators on string constants and regular expressions."""

import ast
import re
from typing import Iterator, List, Tuple

from .site import Site, atom
from .source import Edit

FLAGS = ("DOTALL", "IGNORECASE", "MULTILINE", "VERBOSE", "ASCII", "UNICODE")
FLAG_WORDS = {
    "DOTALL": {"newline", "line", "multiline", "linebreak", "break"},
    "MULTILINE": {"newline", "line", "multiline"},
    "IGNORECASE": {"case", "upper", "lower", "uppercase", "lowercase", "insensitive"},
    "ASCII": {"ascii", "unicode"},
    "UNICODE": {"ascii", "unicode"},
}
QUANTIFIER = re.compile(r"(?<!\\)(?:[*+?]|\{\d*,?\d*\})\??")
NUMBERED = re.compile(r"\{(\d+)(,?)(\d*)\}")
GROUP = re.compile(r"\\.|\((?:\?(?:P<\w+>|[:=!]|<[=!]))?|\)|\[\^?\]?(?:\\.|[^\]\\])*\]")
CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


def strings(site: Site) -> Iterator[Edit]:
    """Texts of the issue, format fields, separators; everything a pattern can get wrong."""
    for node in site.exprs:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "\n" in site.text(node):
                continue
            if _is_pattern(site, node):
                yield from _pattern(site, node)
            yield from _text(site, node)
        elif isinstance(node, ast.Call):
            yield from _flags(site, node)


def flag_variables(site: Site) -> Iterator[Edit]:
    """Flags kept in a variable before they reach the pattern."""
    node = site.node
    if (
        site.unit.part is not None
        or not isinstance(node, ast.Assign)
        or "flags" not in site.text(node.targets[0]).lower()
    ):
        return
    text = site.text(node.value)
    for flag in FLAGS:
        if flag not in text:
            new = "re." + flag if text == "0" else "%s | re.%s" % (atom(text), flag)
            yield site.swap("patterns", "flag", _flag_weight(site, flag), node.value, new)


def _flag_weight(site: Site, flag: str) -> float:
    """A flag that does what the issue speaks of is tried early."""
    return 1.2 if FLAG_WORDS.get(flag, set()) & set(site.issue.words) else 0.35


def _is_pattern(site: Site, node: ast.Constant) -> bool:
    literal = site.text(node)
    parent = site.source.parents.get(node)
    called = isinstance(parent, ast.Call) and site.text(parent.func).split(".")[0] in ("re", "regex")
    marks = sum(mark in node.value for mark in ("\\", "[", "(?", "*", "+", "^", "$", "{", "|"))
    return called or (literal[:1] in "rR" and marks >= 1) or marks >= 3


def _literal(site: Site, node: ast.Constant, text: str) -> str:
    """The new text written like the old one."""
    old = site.text(node)
    match = re.match(r"([A-Za-z]*)('''|\"\"\"|'|\")", old)
    if match and "r" in match.group(1).lower() and match.group(2) not in text and not text.endswith("\\"):
        return match.group(1) + match.group(2) + text + match.group(2)
    if match and match.group(2) == '"' and '"' not in text and "'" not in repr(text)[1:-1]:
        return '"' + repr(text)[1:-1] + '"'
    return repr(text)


def _text(site: Site, node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    for other in site.issue.strings[:6]:
        if other != value and len(other) < 40:
            weight = 0.35 if value and (other in value or value in other) else 0.12
            yield site.swap("strings", "issue-text", weight, node, _literal(site, node, other))
    if 0 < len(value) <= 12:
        for other in (value.strip(), value + " ", " " + value, value.lower(), value.upper(), ""):
            if other != value:
                yield site.swap("strings", "near-text", 0.2, node, _literal(site, node, other))
    if "%s" in value:
        yield site.swap("strings", "format", 0.4, node, _literal(site, node, value.replace("%s", "%r")))
    if "%r" in value:
        yield site.swap("strings", "format", 0.4, node, _literal(site, node, value.replace("%r", "%s")))
    parent = site.source.parents.get(node)
    if isinstance(parent, ast.Call) and site.text(parent.func).endswith(("strip", "split", "startswith", "endswith")):
        for char in _issue_chars(site):
            if char not in value:
                yield site.swap("strings", "more-chars", 0.35, node, _literal(site, node, value + char))


def _issue_chars(site: Site) -> List[str]:
    """Punctuation quoted in the issue and the blanks that snippets spell."""
    quoted = "".join(site.issue.strings)
    found = []  # type: List[str]
    for char in quoted:
        if not char.isalnum() and char not in found and char not in " ()":
            found.append(char)
    return found[:8]


def _pattern(site: Site, node: ast.Constant) -> Iterator[Edit]:
    for name, weight, text in variants(node.value, _issue_chars(site), site.issue.statement):
        try:
            re.compile(node.value)
            try:
                re.compile(text)
            except (re.error, OverflowError):
                continue
        except (re.error, OverflowError):
            pass  # a piece of a pattern: cannot be judged alone
        yield site.swap("patterns", name, weight, node, _literal(site, node, text))


def variants(value: str, chars: List[str], statement: str = "") -> Iterator[Tuple[str, float, str]]:
    """(operator, weight, pattern) for every small change of a regular expression."""
    for match in NUMBERED.finditer(value):
        low, comma, high = match.groups()
        forms = ["{1,%s}" % (high or low), "{0,%s}" % (high or low), "{%s,}" % low, "+", "*"]
        for form in forms:
            if form != match.group(0):
                yield "quantifier", 0.9, value[: match.start()] + form + value[match.end() :]
    for match in QUANTIFIER.finditer(value):
        if match.start() == 0 or value[match.start() - 1] in "(|" or match.group(0).startswith("{"):
            continue
        sign = match.group(0)
        for other in ("*", "+", "?", "", "*?", "+?"):
            if other != sign:
                weight = 0.6 if (sign + other) in ("*+", "+*", "?", "**?", "++?") or other == sign[0] else 0.35
                yield "quantifier", weight, value[: match.start()] + other + value[match.end() :]
    yield from _dots(value)
    yield from _anchors(value)
    yield from _classes(value, chars)
    yield from _groups(value)
    if "|" in value:
        parts = value.split("|")
        if len(parts) <= 6:
            for index in range(len(parts)):
                yield "drop-branch", 0.35, "|".join(parts[:index] + parts[index + 1 :])
    for flag in ("(?s)", "(?i)", "(?m)"):
        if not value.startswith("(?") or value.startswith(("(?:", "(?P", "(?=", "(?!", "(?<")):
            yield "inline-flag", 0.35, flag + value


def _dots(value: str) -> Iterator[Tuple[str, float, str]]:
    places = [m.start() for m in re.finditer(r"(?<!\\)\.", CLASS.sub(lambda m: "_" * len(m.group(0)), value))]
    for place in places:
        yield "dot-all", 0.6, value[:place] + r"[\s\S]" + value[place + 1 :]
        yield "escape-dot", 0.35, value[:place] + r"\." + value[place + 1 :]
    if len(places) > 1:
        text = value
        for place in reversed(places):
            text = text[:place] + r"[\s\S]" + text[place + 1 :]
        yield "dot-all", 0.5, text


def _anchors(value: str) -> Iterator[Tuple[str, float, str]]:
    for anchor, other in (("^", r"\A"), ("$", r"\Z"), (r"\b", "")):
        for match in re.finditer(re.escape(anchor), value):
            if match.start() and value[match.start() - 1] in "[\\":
                continue
            yield "anchor", 0.4, value[: match.start()] + value[match.end() :]
            if other:
                yield "anchor", 0.5, value[: match.start()] + other + value[match.end() :]
    yield "anchor", 0.35, value + r"\b"
    yield "anchor", 0.35, r"\b" + value
    yield "anchor", 0.3, "^" + value
    yield "anchor", 0.4, value + "$"
    yield "anchor", 0.3, r"(?<![\w])" + value
    yield "anchor", 0.3, value + r"(?![\w])"


def _classes(value: str, chars: List[str]) -> Iterator[Tuple[str, float, str]]:
    for match in CLASS.finditer(value):
        text = match.group(0)
        head = 2 if text.startswith("[^") else 1
        for char in chars:
            if char not in text:
                new = text[:head] + re.escape(char) + text[head:]
                yield "add-to-class", 0.45, value[: match.start()] + new + value[match.end() :]
        items = re.findall(r"\\.|.-[^\]]|.", text[head:-1])
        for index in range(len(items)):
            if len(items) > 1:
                new = text[:head] + "".join(items[:index] + items[index + 1 :]) + "]"
                weight = 0.6 if any(c in items[index] for c in chars) else 0.3
                yield "drop-from-class", weight, value[: match.start()] + new + value[match.end() :]
    for old, new in (
        (r"\w", r"[\w-]"),
        (r"\w", r"\S"),
        (r"\s", "[ \\t]"),
        (r"\d", r"\w"),
        (r"\s*", r"\s+"),
        (r"\s+", r"\s*"),
        (" ", r"\s+"),
        (" ", r"\s*"),
    ):
        for match in list(re.finditer(re.escape(old), value))[:4]:
            yield "other-class", 0.3, value[: match.start()] + new + value[match.end() :]


def _groups(value: str) -> Iterator[Tuple[str, float, str]]:
    """Make a group optional or required, or take it away."""
    stack = []  # type: List[int]
    for match in GROUP.finditer(value):
        text = match.group(0)
        if text.startswith("("):
            stack.append(match.start())
        elif text == ")" and stack:
            start, end = stack.pop(), match.end()
            follow = value[end : end + 1]
            if follow == "?":
                yield "group", 0.5, value[:end] + value[end + 1 :]
            elif follow not in ("*", "+", "{"):
                yield "group", 0.45, value[:end] + "?" + value[end:]
            yield "drop-group", 0.3, value[:start] + value[end + (1 if follow and follow in "?*+" else 0) :]


def _flags(site: Site, node: ast.Call) -> Iterator[Edit]:
    """Flags of a compiled pattern."""
    name = site.text(node.func)
    module, _, method = name.rpartition(".")
    if method not in (
        "compile",
        "match",
        "search",
        "fullmatch",
        "sub",
        "findall",
        "split",
        "finditer",
    ) or module not in ("re", "regex", "_re"):
        return
    texts = [(arg, site.text(arg)) for arg in list(node.args[1:]) + [k.value for k in node.keywords]]
    marks = re.compile(r"flags|\b[A-Z]+\b|" + re.escape(module + "."))
    flagged = [(arg, text) for arg, text in texts if marks.search(text)]
    for flag in FLAGS:
        weight = _flag_weight(site, flag)
        if flagged:
            arg, text = flagged[-1]
            if flag not in text:
                yield site.swap("patterns", "flag", weight, arg, "%s | %s.%s" % (atom(text), module, flag))
        else:
            last = node.args[-1] if node.args else None
            if last is not None and method == "compile" and len(node.args) == 1:
                yield site.swap("patterns", "flag", weight, last, "%s, %s.%s" % (site.text(last), module, flag))
            elif last is not None and not node.keywords:
                yield site.swap("patterns", "flag", weight, last, "%s, flags=%s.%s" % (site.text(last), module, flag))
    if flagged:
        arg, text = flagged[-1]
        parts = [p.strip() for p in text.split("|")]
        for index in range(len(parts)):
            new = " | ".join(parts[:index] + parts[index + 1 :]) or "0"
            yield site.swap("patterns", "drop-flag", 0.4, arg, new)
