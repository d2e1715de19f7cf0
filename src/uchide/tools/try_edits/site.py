"""What an operator sees: one unit with its scope, the issue, and helpers that make edits."""

import ast
import builtins
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .issue import Issue
from .localise import Unit
from .source import FUNCTIONS, Edit, Source, expressions, names_in, statements, stored_names

BUILTIN_NAMES = frozenset(dir(builtins))


class Repo:
    """Facts about all traced files: signatures by function name, class names that are exceptions."""

    def __init__(self, sources: Dict[str, Source], trace: Dict[str, Any]) -> None:
        self.sources = sources
        self.kinds = trace["values"]  # type: Dict[str, Dict[str, List[str]]]
        self.signatures = {}  # type: Dict[str, List[ast.arguments]]
        self.memo = {}  # type: Dict[Any, Any]
        for source in sources.values():
            for node in statements(source.tree):
                if isinstance(node, FUNCTIONS):
                    name = node.name
                    owner = source.parents.get(node)
                    if name == "__init__" and isinstance(owner, ast.ClassDef):
                        name = owner.name
                    self.signatures.setdefault(name, []).append(node.args)


class Site:
    """One unit, ready for the operators."""

    def __init__(self, unit: Unit, issue: Issue, repo: Repo) -> None:
        self.unit = unit
        self.source = unit.source
        self.node = unit.node
        self.issue = issue
        self.repo = repo
        self.function = None if isinstance(unit.node, FUNCTIONS) else unit.source.function(unit.node)
        self.klass = unit.source.klass(unit.node)
        self.exprs = list(self._expressions())
        self.used = names_in(unit.node) if unit.part is None else names_in(unit.part)
        self.statement_level = unit.part is None and unit.source.own_lines(unit.node)

    def _expressions(self) -> Iterator[ast.expr]:
        source = self.source
        found = ast.walk(self.unit.part) if self.unit.part is not None else expressions(self.node)
        inside = set()
        for node in found:
            if isinstance(node, ast.JoinedStr):
                inside.update(id(child) for child in ast.walk(node) if child is not node)
        found = ast.walk(self.unit.part) if self.unit.part is not None else expressions(self.node)
        for node in found:
            if isinstance(node, ast.expr) and hasattr(node, "lineno") and id(node) not in inside:
                if not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) and source.end(node) > 0:
                    yield node

    def text(self, node: ast.AST) -> str:
        return self.source.text(node)

    def once(self, key: Any, make: Any) -> Any:
        """What `make()` gives, computed once per search."""
        if key not in self.repo.memo:
            self.repo.memo[key] = make()
        return self.repo.memo[key]

    def scope(self) -> List[str]:
        """Variables of the function that may be bound here, those the statement uses first."""
        return self.once(("scope", id(self.unit.node), id(self.unit.part)), self._scope)

    def _scope(self) -> List[str]:
        if self.function is None:
            return []
        first = self.once(("stores", id(self.function)), self._first_stores)
        args = {a.arg for a in ast.walk(self.function.args) if isinstance(a, ast.arg)}
        names = [n for n, line in first.items() if n in args or n in self.used or line < self.node.lineno]
        return sorted(names, key=lambda n: n not in self.used)

    def _first_stores(self) -> Dict[str, int]:
        """First line that binds each variable of the function."""
        found = {n: self.function.end_lineno for n in stored_names(self.function) if n not in ("self", "cls")}
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in found:
                found[node.id] = min(found[node.id], node.lineno)
        return found

    def arguments(self) -> List[str]:
        if self.function is None:
            return []
        return [a.arg for a in ast.walk(self.function.args) if isinstance(a, ast.arg) and a.arg not in ("self", "cls")]

    def kinds(self, name: str) -> List[str]:
        """Kinds of values the parameter held in the traced run."""
        if self.function is None:
            return []
        first = min([self.function.lineno] + [d.lineno for d in self.function.decorator_list])
        return self.repo.kinds.get(self.source.path, {}).get("%d %s" % (first, name), [])

    def peers(self) -> List[ast.stmt]:
        """Statements near this one: its function's first, then those of its class's other methods."""
        near = self.once(("peers", id(self.function), id(self.klass)), self._peers)
        return [node for node in near if node is not self.node]

    def _peers(self) -> List[ast.stmt]:
        near = list(statements(self.function)) if self.function is not None else []
        if self.klass is not None:
            known = {id(node) for node in near}
            near += [node for node in statements(self.klass) if id(node) not in known]
        return near

    def swap(self, family: str, name: str, weight: float, node: ast.AST, text: str) -> Edit:
        return Edit(family, name, weight, (self.source.replace(node, text),))

    def before(self, family: str, name: str, weight: float, lines: Sequence[str]) -> Edit:
        indent = self.source.indent(self.node) or b""
        start = self.source.line_start(self.node)
        return Edit(family, name, weight, ((start, start, self.source.block(lines, indent)),))

    def after(self, family: str, name: str, weight: float, lines: Sequence[str]) -> Edit:
        indent = self.source.indent(self.node) or b""
        end = self.source.line_after(self.node)
        return Edit(family, name, weight, ((end, end, self.source.block(lines, indent)),))

    def wrap(
        self,
        family: str,
        name: str,
        weight: float,
        first: str,
        after: Sequence[str] = (),
        node: Optional[ast.stmt] = None,
    ) -> Edit:
        """`first` as a new block line, the statement one level in, then further lines."""
        node = node or self.node
        indent = self.source.indent(node) or b""
        start, end = self.source.line_start(node), self.source.line_after(node)
        body = self.source.deeper(node)
        if not body.endswith(b"\n"):
            body += self.source.newline
        new = self.source.block([first], indent) + body + self.source.block(after, indent)
        return Edit(family, name, weight, ((start, end, new),))

    def remove(self, node: ast.stmt) -> Tuple[int, int, bytes]:
        start, end = self.source.line_start(node), self.source.line_after(node)
        if len(self.source.siblings(node)) == 1:
            return (start, end, self.source.block(["pass"], self.source.indent(node) or b""))
        return (start, end, b"")

    def bound(self, text_names: Sequence[str]) -> bool:
        """True if all names can be read here."""
        key = ("known", id(self.unit.node), id(self.unit.part))
        known = self.once(key, lambda: set(self.scope()) | BUILTIN_NAMES | {"self", "cls"})
        module = self.once(("module", self.source.path), self._module_names)
        return all(name in known or name in module for name in text_names)

    def _module_names(self) -> set:
        found = set()
        for node in self.source.tree.body:
            for child in [node] if isinstance(node, FUNCTIONS + (ast.ClassDef,)) else list(ast.walk(node)):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    found.add(child.id)
                elif isinstance(child, FUNCTIONS + (ast.ClassDef,)):
                    found.add(child.name)
                elif isinstance(child, ast.alias):
                    found.add((child.asname or child.name).split(".")[0])
        return found


def atom(text: str) -> str:
    """The text in parentheses unless it binds tightly already."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return "(" + text + ")"
    tight = (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set)
    if isinstance(node, tight) and "\n" not in text:
        return text
    return "(" + text + ")"
