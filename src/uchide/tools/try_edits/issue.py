"""What the issue record says: words and their weights, quoted code, strings, exception names, expected lines."""

import ast
import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Set

WORD = re.compile(r"[A-Za-z]+")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
STOP = set(
    "the a an is are be to of in on at it its as and or not no for with when that this which should would could can if"
    " than then from by but so does do did has have only also into any all one two same other such still must may will"
    " there their they them was were been i we you he instead expected actual import print def class return".split()
)


class Issue(NamedTuple):
    """The issue as the search uses it."""

    statement: str
    snippet: str
    observed: str
    expected: str
    words: Dict[str, float]
    identifiers: Set[str]
    strings: List[str]
    exceptions: List[str]
    expected_exceptions: List[str]
    missing: List[str]


def split_words(text: str) -> List[str]:
    """Lower-case words; identifiers fall apart at underscores and capitals; plural endings go."""
    found = []
    for word in WORD.findall(re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)):
        word = word.lower()
        if len(word) > 4 and word.endswith("s") and not word.endswith("ss"):
            word = word[:-1]
        if len(word) > 1 and word not in STOP:
            found.append(word)
    return found


def load(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def build(record: Dict[str, Any], expected: Optional[str] = None, observed: Optional[str] = None) -> Issue:
    """The issue of a record; texts measured by a run win over those of the record."""
    statement = record.get("problem_statement") or ""
    snippet = record.get("snippet") or ""
    expected = (record.get("expected") if expected is None else expected) or ""
    observed = (record.get("observed") if observed is None else observed) or ""
    words = {}  # type: Dict[str, float]
    first = statement.split("\n", 1)[0]
    for text, weight in ((first, 1.0), (statement, 1.0), (snippet, 0.5), (expected, 0.3)):
        for word in set(split_words(text)):
            words[word] = max(words.get(word, 0.0), weight)
    quoted = " ".join(re.findall(r"`([^`]+)`", statement))
    for word in split_words(quoted):
        words[word] = 1.5
    exceptions = _exceptions(observed + "\n" + statement)
    wanted = [name for name in _exceptions(expected) if name not in _exceptions(observed)]
    missing = [line for line in expected.splitlines() if line not in observed.splitlines()]
    identifiers = set(IDENTIFIER.findall(quoted + " " + snippet))
    strings = _strings(statement, snippet, missing)
    return Issue(statement, snippet, observed, expected, words, identifiers, strings, exceptions, wanted, missing)


def _exceptions(text: str) -> List[str]:
    found = []  # type: List[str]
    for name in re.findall(r"\b[A-Z][A-Za-z0-9]*(?:Error|Exception|Warning|Interrupt|Exit|DoesNotExist)\b", text):
        if name not in found:
            found.append(name)
    return found


def _strings(statement: str, snippet: str, missing: List[str]) -> List[str]:
    """Texts that a repair may have to spell: messages of the expected output first, then quoted ones."""
    found = []  # type: List[str]
    for line in missing:
        match = re.match(r"^[A-Za-z_][\w. ]*: (.+)$", line)
        found.extend([match.group(1)] if match else [])
        found.append(line)
    found.extend(re.findall(r"`([^`\n]{1,80})`", statement))
    found.extend(re.findall(r"\"([^\"\n]{1,60})\"", statement))
    try:
        tree = ast.parse(snippet)
    except SyntaxError:
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 60:
            found.append(node.value)
    kept = []  # type: List[str]
    for text in found:
        if text and text not in kept:
            kept.append(text)
    return kept[:30]
