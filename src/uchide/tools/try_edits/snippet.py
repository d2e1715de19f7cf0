"""Finds runnable code and its expected output in an issue: the record's own fields, else doctests in the statement."""

import ast
import re
import textwrap
from typing import Any, Dict, List, Optional, Tuple

FENCE = re.compile(r"```(?:python|py|pycon|console)?\n(.*?)```", re.DOTALL)


def find(record: Dict[str, Any]) -> Optional[Tuple[str, str]]:
    """(script, expected output) or None."""
    snippet, expected = record.get("snippet"), record.get("expected")
    if snippet and expected and parses(snippet):
        return _ended(snippet), _ended(expected)
    statement = record.get("problem_statement") or ""
    session = _session(statement)
    if session is not None:
        return session
    if expected:
        for block in FENCE.findall(statement):
            code = textwrap.dedent(block)
            if parses(code) and "print" in code:
                return _ended(code), _ended(expected)
    return None


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _session(statement: str) -> Optional[Tuple[str, str]]:
    """A `>>>` session whose outputs are marked as what is wanted by a heading such as "Expected"."""
    sections = re.split(r"(?im)^[#*\s]*(expected|should|desired)[^\n]*\n", statement)
    if len(sections) < 3:
        return None
    wanted = _examples(sections[2])
    if not wanted:
        return None
    known = {source for source, _ in wanted}
    setup = [(source, "") for source, _ in _examples(sections[0]) if source not in known and _binds(source)]
    script = []  # type: List[str]
    expected = []  # type: List[str]
    for source, output in setup + wanted:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return None
        if output and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            script.append("print(repr(%s))" % source.strip())
            expected.append(output)
        else:
            script.append(source.rstrip("\n"))
            expected.extend([output] if output else [])
    return ("\n".join(script) + "\n", "\n".join(expected) + "\n") if expected else None


def _binds(source: str) -> bool:
    return parses(source) and not isinstance(ast.parse(source).body[0], ast.Expr) if source.strip() else False


def _examples(text: str) -> List[Tuple[str, str]]:
    """(source, output) pairs of an interactive session."""
    found = []  # type: List[Tuple[str, str]]
    source = []  # type: List[str]
    output = []  # type: List[str]
    for line in text.splitlines() + [">>> "]:
        bare = line.strip()
        if bare.startswith(">>>") or bare.startswith("```"):
            if source:
                found.append(("\n".join(source), "\n".join(output).strip()))
            source, output = ([line.split(">>>", 1)[1][1:]] if bare.startswith(">>> ") else []), []
        elif bare.startswith("...") and source and not output:
            source.append(line.split("...", 1)[1][1:])
        elif source and bare:
            output.append(bare)
        elif source and not bare:
            found.append(("\n".join(source), "\n".join(output).strip()))
            source, output = [], []
    return [pair for pair in found if pair[0].strip()]
