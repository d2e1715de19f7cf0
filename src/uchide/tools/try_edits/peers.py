"""Carries an edit over to its peers: the same statement place in functions of the same name in neighbouring classes."""

import ast
import os
from typing import Any, Dict, List, Optional, Tuple

from .issue import Issue
from .localise import Unit, is_test_path
from .pool import OPERATORS, Mutant, trim
from .site import Repo, Site
from .source import FUNCTIONS, Source, statements

MAX_PEERS = 6


def neighbours(root: str, path: str, sources: Dict[str, Source]) -> Dict[str, Source]:
    """Source files of the same folder, traced or not."""
    folder = os.path.dirname(path)
    found = {}  # type: Dict[str, Source]
    for name in sorted(os.listdir(os.path.join(root, folder))):
        other = os.path.join(folder, name) if folder else name
        if not name.endswith(".py") or is_test_path(other):
            continue
        if other in sources:
            found[other] = sources[other]
            continue
        with open(os.path.join(root, other), "rb") as file:
            data = file.read()
        try:
            data.decode("utf-8")
            found[other] = Source(other, data)
        except (SyntaxError, UnicodeDecodeError):
            continue
    return found


def carry_over(
    mutant: Mutant, unit: Unit, near: Dict[str, Source], issue: Issue, trace: Dict[str, Any]
) -> List[Mutant]:
    """The mutant's edit at each peer of its statement."""
    function = unit.source.function(unit.node)
    if function is None or unit.source.klass(function) is None or unit.part is not None:
        return []
    place = _place(unit.source, unit.node, function)
    texts = tuple(new for _, _, new in mutant.changes)
    repo = Repo(near, trace)
    found = []  # type: List[Mutant]
    for path, source in near.items():
        for node in statements(source.tree):
            if not isinstance(node, FUNCTIONS) or node.name != function.name or source.klass(node) is None:
                continue
            if path == unit.source.path and node.lineno == function.lineno:
                continue
            peer = _at(source, node, place)
            if peer is None or type(peer) is not type(unit.node) and not _both_plain(peer, unit.node):
                continue
            site = Site(unit._replace(source=source, node=peer, line=peer.lineno), issue, repo)
            changes = _same_edit(site, mutant, texts)
            if changes:
                found.append(mutant._replace(path=path, line=peer.lineno, changes=changes))
    return found[:MAX_PEERS]


def like_sites(mutant: Mutant, unit: Unit, issue: Issue, repo: Repo) -> List[Mutant]:
    """A pattern's edit at all statements of its function where it can be made, run or not."""
    function = unit.source.function(unit.node)
    texts = {new for _, _, new in mutant.changes}
    if function is None or unit.part is not None or mutant.family != "patterns" or len(texts) != 1:
        return []
    name = mutant.name[:-4] if mutant.name.endswith("-all") else mutant.name
    done = set(mutant.changes)
    found = []  # type: List[Mutant]
    for node in statements(function):
        site = Site(unit._replace(node=node, line=node.lineno), issue, repo)
        changes = _same_edit(site, mutant._replace(name=name), tuple(texts))
        if changes and not done & set(changes):
            done |= set(changes)
            found.append(mutant._replace(line=node.lineno, changes=changes))
    return found[:MAX_PEERS]


def _place(source: Source, node: ast.stmt, function: ast.AST) -> Tuple[int, ...]:
    """Indexes of the statement lists from the function down to the statement."""
    path = []  # type: List[int]
    current = node  # type: ast.AST
    while current is not function:
        block = source.siblings(current)
        path.append(block.index(current) if current in block else -1)
        current = source.parents[current]
    return tuple(reversed(path))


def _at(source: Source, function: ast.AST, place: Tuple[int, ...]) -> Optional[ast.stmt]:
    node = function
    for index in place:
        body = getattr(node, "body", None)
        if not isinstance(body, list) or not 0 <= index < len(body):
            return None
        node = body[index]
    return node if isinstance(node, ast.stmt) else None


def _both_plain(one: ast.stmt, other: ast.stmt) -> bool:
    plain = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)
    return isinstance(one, plain) and isinstance(other, plain)


def _same_edit(site: Site, mutant: Mutant, texts: Tuple[bytes, ...]) -> Tuple[Any, ...]:
    for operator in OPERATORS:
        for edit in operator(site):
            if (edit.family, edit.name) == (mutant.family, mutant.name):
                changes = trim(site.source.data, edit.changes)
                if tuple(new for _, _, new in changes) == texts:
                    return changes
    return ()
