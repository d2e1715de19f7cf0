"""One source file as bytes plus its syntax tree: spans, indentation, scopes, and the edits made of them."""

import ast
from typing import Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

Change = Tuple[int, int, bytes]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Edit(NamedTuple):
    """One candidate edit of one file: byte ranges of the original and what stands there afterwards."""

    family: str
    name: str
    weight: float
    changes: Tuple[Change, ...]


class Source:
    """A parsed file. Offsets are bytes; trees are never changed."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.tree = ast.parse(data)
        self.starts = [0]
        for line in data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.newline = b"\r\n" if b"\r\n" in data else b"\n"
        self.parents = {}  # type: Dict[ast.AST, ast.AST]
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self.step = self._indent_step()

    def _indent_step(self) -> bytes:
        for node in ast.walk(self.tree):
            if isinstance(node, FUNCTIONS):
                outer, inner = self.indent(node), self.indent(node.body[0])
                if outer is not None and inner is not None and inner.startswith(outer) and inner != outer:
                    return inner[len(outer) :]
        return b"    "

    def start(self, node: ast.AST) -> int:
        first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
        if first != node.lineno:
            return self.starts[first - 1] + len(self.indent(node) or b"")
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.data[self.start(node) : self.end(node)].decode("utf-8")

    def indent(self, node: ast.AST) -> Optional[bytes]:
        """The blanks before a statement, or None where it is not first on its line."""
        line = self.starts[node.lineno - 1]
        lead = self.data[line : line + node.col_offset]
        return lead if not lead.strip() else None

    def replace(self, node: ast.AST, text: str) -> Change:
        return (self.start(node), self.end(node), text.encode("utf-8"))

    def line_start(self, node: ast.AST) -> int:
        first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
        return self.starts[first - 1]

    def line_after(self, node: ast.AST) -> int:
        return min(self.starts[node.end_lineno], len(self.data))

    def block(self, lines: Sequence[str], indent: bytes) -> bytes:
        """Lines (tabs at their start mean one more level) as bytes of this file's style."""
        made = []
        for line in lines:
            depth = len(line) - len(line.lstrip("\t"))
            made.append(indent + self.step * depth + line[depth:].encode("utf-8") + self.newline)
        return b"".join(made)

    def own_lines(self, node: ast.AST) -> bool:
        """True if the statement shares its lines with no other code and holds no string over several lines."""
        if self.indent(node) is None:
            return False
        rest = self.data[self.end(node) : self.line_after(node)].strip()
        if rest and not rest.startswith(b"#"):
            return False
        return not any(
            isinstance(n, (ast.Constant, ast.JoinedStr)) and n.end_lineno != n.lineno for n in ast.walk(node)
        )

    def deeper(self, node: ast.AST) -> bytes:
        """The statement's lines, one level further in."""
        lines = self.data[self.line_start(node) : self.line_after(node)].split(b"\n")
        return b"\n".join(self.step + line if line.strip() else line for line in lines)

    def function(self, node: ast.AST) -> Optional[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, FUNCTIONS):
                return node
        return None

    def klass(self, node: ast.AST) -> Optional[ast.ClassDef]:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.ClassDef):
                return node
        return None

    def loop(self, node: ast.AST) -> bool:
        child = node
        while child in self.parents:
            parent = self.parents[child]
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
                return child in parent.body
            if isinstance(parent, SCOPES):
                return False
            child = parent
        return False

    def siblings(self, node: ast.AST) -> List[ast.stmt]:
        """The statement list that holds the statement."""
        parent = self.parents.get(node, self.tree)
        for field in BLOCKS:
            value = getattr(parent, field, None)
            if isinstance(value, list) and node in value:
                return value
        return []

    def apply(self, changes: Sequence[Change]) -> Optional[bytes]:
        """The file's bytes after the changes, or None where they overlap."""
        data = self.data
        limit = len(data) + 1
        for start, end, new in sorted(changes, key=lambda c: (c[0], c[1]), reverse=True):
            if end > limit:
                return None
            data = data[:start] + new + data[end:]
            limit = start
        return data


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def header(stmt: ast.stmt) -> List[ast.AST]:
    """The parts of a statement that are not statements themselves: a whole simple statement, the test of an if."""
    parts = []  # type: List[ast.AST]
    for field, value in ast.iter_fields(stmt):
        if field in BLOCKS or field == "decorator_list":
            continue
        values = value if isinstance(value, list) else [value]
        parts.extend(v for v in values if isinstance(v, ast.AST))
    return parts


def expressions(stmt: ast.stmt) -> Iterator[ast.expr]:
    """Every expression of a statement's header, outermost first."""
    for part in header(stmt):
        for node in ast.walk(part):
            if isinstance(node, ast.expr) and hasattr(node, "lineno") and not _in_fstring(node):
                yield node


def _in_fstring(node: ast.AST) -> bool:
    return isinstance(node, (ast.FormattedValue,))


def header_lines(stmt: ast.stmt) -> range:
    """Line numbers of the header."""
    body = getattr(stmt, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        ends = [part.end_lineno for part in header(stmt) if hasattr(part, "end_lineno")]
        return range(stmt.lineno, max(ends + [stmt.lineno]) + 1)
    return range(stmt.lineno, stmt.end_lineno + 1)


def subscript_key(node: ast.Subscript) -> Optional[ast.expr]:
    """What stands in the brackets, None for a slice; Python 3.8 has a node more there."""
    key = getattr(node.slice, "value", node.slice) if type(node.slice).__name__ == "Index" else node.slice
    return key if isinstance(key, ast.expr) and hasattr(key, "lineno") and not isinstance(key, ast.Slice) else None


def names_in(node: ast.AST) -> Set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def stored_names(function: ast.AST) -> List[str]:
    """Parameters and local variables of a function, in order of appearance."""
    found = []  # type: List[str]
    for node in ast.walk(function):
        name = None
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.ExceptHandler):
            name = node.name
        if name and name not in found:
            found.append(name)
    return found
