"""Ranks the statements a repair may stand at, from one traced run of the reproduction and the words of the issue."""

import ast
import math
import os
import re
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from .issue import Issue, split_words
from .source import FUNCTIONS, Source, header_lines, names_in, statements

TEST_PATH = re.compile(r"(^|/)(tests?|testing|docs?|examples?)/|(^|/)(test_[^/]*|[^/]*_test|tests|conftest|setup)\.py$")
MAX_FILES = 40
ELEMENT_MIN = 5


class Unit(NamedTuple):
    """A statement (or one element of a long literal) with the files and scores that led to it."""

    source: Source
    node: ast.stmt
    part: Optional[ast.expr]
    line: int
    score: float
    raised: Tuple[str, ...]
    depth: int

    @property
    def focus(self) -> ast.AST:
        return self.part if self.part is not None else self.node


def is_test_path(path: str) -> bool:
    return bool(TEST_PATH.search(path.replace(os.sep, "/")))


def read_sources(root: str, trace: Dict[str, Any]) -> Dict[str, Source]:
    """The traced, non-test source files, those with most running lines first."""
    ran = {
        path: sum(1 for hits in lines.values() if hits[0])
        for path, lines in trace["lines"].items()
        if path.endswith(".py") and not is_test_path(path)
    }
    sources = {}  # type: Dict[str, Source]
    for path in sorted(ran, key=lambda p: (-ran[p], p))[:MAX_FILES]:
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        try:
            data.decode("utf-8")
            sources[path] = Source(path, data)
        except (SyntaxError, UnicodeDecodeError):
            continue
    return sources


def rank(sources: Dict[str, Source], trace: Dict[str, Any], issue: Issue) -> List[Unit]:
    """Units, best first."""
    rarity = _rarity(sources)
    raised = _raised_lines(trace)
    wrong = _wrong_values(trace, issue)
    found = []  # type: List[Unit]
    scores = {}  # type: Dict[str, float]
    for path, source in sources.items():
        lines = {int(line): hits for line, hits in trace["lines"][path].items()}
        for node in statements(source.tree):
            score = _score(source, node, lines, trace, issue, rarity, raised, wrong)
            if score <= 0:
                continue
            kinds, depth = _raised_at(raised, path, node)
            found.append(Unit(source, node, None, node.lineno, score, kinds, depth))
            for name in _referenced(node):
                scores[name] = max(scores.get(name, 0.0), score)
    found = _inherit(found)
    found.extend(_constants(sources, scores, issue, rarity))
    return sorted(found, key=lambda unit: (-unit.score, unit.source.path, unit.line))


def _rarity(sources: Dict[str, Source]) -> Dict[str, float]:
    counts = Counter()  # type: Counter
    total = 1
    for source in sources.values():
        for line in source.data.decode("utf-8").splitlines():
            total += 1
            counts.update(set(split_words(line)))
    return {word: math.log(total / (1.0 + count)) / math.log(total + 1.0) for word, count in counts.items()}


def overlap(text: str, issue: Issue, rarity: Dict[str, float]) -> float:
    """How much the text speaks of what the issue speaks of; saturates near 1."""
    words = set(split_words(text))
    total = sum(issue.words[word] * rarity.get(word, 1.0) ** 2 for word in words if word in issue.words)
    return total / (1.0 + total)


def _raised_lines(trace: Dict[str, Any]) -> Dict[Tuple[str, int], Tuple[Set[str], int]]:
    found = {}  # type: Dict[Tuple[str, int], Tuple[Set[str], int]]
    for path, line, kind, depth in trace["raised"]:
        kinds, deepest = found.get((path, line), (set(), 0))
        found[(path, line)] = (kinds | {kind}, max(deepest, depth))
    return found


def _raised_at(
    raised: Dict[Tuple[str, int], Tuple[Set[str], int]], path: str, node: ast.stmt
) -> Tuple[Tuple[str, ...], int]:
    kinds = set()  # type: Set[str]
    deepest = 0
    for line in header_lines(node):
        more, depth = raised.get((path, line), (set(), 0))
        kinds |= more
        deepest = max(deepest, depth)
    return tuple(sorted(kinds)), deepest


def _wrong_values(trace: Dict[str, Any], issue: Issue) -> Set[Tuple[str, int]]:
    """Functions that returned a value which shows in the wrong output only."""
    expected = issue.expected
    wrong = "\n".join(line for line in issue.observed.splitlines() if line not in expected.splitlines())
    found = set()
    for path, first, text in trace["returned"]:
        if text and text in wrong and (len(text) > 3 or text == wrong.strip()) and text not in expected:
            found.add((path, first))
    return found


def _score(
    source: Source,
    node: ast.stmt,
    lines: Dict[int, List[int]],
    trace: Dict[str, Any],
    issue: Issue,
    rarity: Dict[str, float],
    raised: Dict[Tuple[str, int], Tuple[Set[str], int]],
    wrong: Set[Tuple[str, int]],
) -> float:
    function = source.function(node)
    calls = trace["functions"].get(source.path, {})
    if isinstance(node, FUNCTIONS):
        score = 0.35 if str(source.tree and _first_line(node)) in calls else 0.0
        text = ast.unparse(node.args) if hasattr(ast, "unparse") else node.name
        return score * (0.6 + overlap(node.name + " " + text, issue, rarity))
    hits = [lines[line] for line in header_lines(node) if line in lines]
    ran = max([hit[0] for hit in hits] or [0])
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass, ast.ClassDef, ast.Global)) or not ran:
        return 0.0
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return 0.0
    text = " ".join(source.text(part) for part in _parts(node))
    score = 0.4 + overlap(text, issue, rarity)
    if function is not None:
        owner = source.klass(function)
        title = function.name + " " + (owner.name if owner is not None else "")
        score += 0.9 * overlap(title, issue, rarity)
        if function.name in issue.identifiers and not function.name.startswith("__"):
            score += 0.25
        if (source.path, _first_line(function)) in wrong:
            score += 0.5
    kinds, _ = _raised_at(raised, source.path, node)
    if set(kinds) & set(issue.exceptions):
        score += 1.2
    elif kinds:
        score += 0.4
    return score / (1.0 + 0.05 * math.log(1.0 + ran))


def _first_line(function: ast.AST) -> int:
    return min([function.lineno] + [d.lineno for d in function.decorator_list])


def _parts(node: ast.stmt) -> List[ast.AST]:
    from .source import header

    return [part for part in header(node) if hasattr(part, "lineno")]


def _referenced(node: ast.stmt) -> Set[str]:
    """Global-looking names that the statement's header reads: plain names and last parts of dotted ones."""
    found = set()  # type: Set[str]
    for part in _parts(node):
        found |= names_in(part)
        found |= {n.attr for n in ast.walk(part) if isinstance(n, ast.Attribute)}
    return found


def _inherit(units: List[Unit]) -> List[Unit]:
    """A condition is worth nearly what it guards."""
    scores = {id(unit.node): unit.score for unit in units}
    made = []
    for unit in units:
        score = unit.score
        if isinstance(unit.node, (ast.If, ast.While, ast.For, ast.Try)):
            inner = [scores.get(id(child), 0.0) for child in unit.node.body + unit.node.orelse]
            score = max([score] + [0.9 * value for value in inner])
        made.append(unit._replace(score=score))
    return made


def _constants(
    sources: Dict[str, Source], scores: Dict[str, float], issue: Issue, rarity: Dict[str, float]
) -> List[Unit]:
    """Module- and class-level assignments whose names the run used, and, through them, further ones."""
    assigned = []  # type: List[Tuple[Source, ast.stmt, List[str]]]
    for source in sources.values():
        for node in statements(source.tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and source.function(node) is None and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                assigned.append((source, node, names))
    reached = dict(scores)
    for _ in range(3):
        for _, node, names in assigned:
            best = max([reached.get(name, 0.0) for name in names] or [0.0])
            for name in names_in(node.value):
                reached[name] = max(reached.get(name, 0.0), 0.85 * best)
    found = []
    for source, node, names in assigned:
        best = max([reached.get(name, 0.0) for name in names] or [0.0])
        if best <= 0:
            continue
        base = 0.25 + 0.45 * best
        elements = _elements(node.value)
        for part in elements or [None]:
            text = source.text(part if part is not None else node)
            score = base * (0.5 if elements else 0.8) + overlap(text, issue, rarity)
            line = (part or node).lineno
            found.append(Unit(source, node, part, line, score, (), 0))
    return found


def _elements(value: ast.expr) -> List[ast.expr]:
    """The elements of a long literal, each of which can be at fault by itself."""
    while isinstance(value, ast.Call) and value.args and isinstance(value.args[0], (ast.List, ast.Tuple, ast.Dict)):
        value = value.args[0]
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        items = list(value.elts)
    elif isinstance(value, ast.Dict):
        items = list(value.values)
    else:
        return []
    return items if len(items) >= ELEMENT_MIN else []
