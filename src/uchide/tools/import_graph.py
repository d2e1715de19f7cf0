"""Show which modules a file imports, and which files of the repository import it.

    python import_graph.py PATH.py [PATH.py ...] [--depth N] [--json]

Nothing is imported: files are parsed. The repository is the current folder; a module is looked for in it and in the
folders of $PYTHONPATH inside it, and in `src` and `lib`. Printed per file: the files it imports, the modules from
outside, and the files that import it, directly or (with --depth 2 or more) through others, each with the line of the
import. Imports inside functions count.
--json prints one object per file: {"file", "imports": [{"file", "module", "line"}], "outside": [module], "imported_by":
[{"file", "line", "through", "depth"}]}.
Exit: 0; 1 a file is missing or cannot be parsed; 2 usage.
"""

import argparse
import ast
import collections
import json
import os
import sys

FOREIGN = {"site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox", "node_modules", ".git", "__pycache__"}
MAX_FILES = 20000

Edge = collections.namedtuple("Edge", "target module line")


def main(argv):
    parser = argparse.ArgumentParser(
        prog="import_graph.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("paths", nargs="+", metavar="PATH.py")
    parser.add_argument("--depth", type=int, default=1, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.depth < 1:
        parser.error("--depth must be at least 1")
    repository = Repository(os.getcwd())
    bad = 0
    for given in options.paths:
        path = os.path.relpath(given)
        if path not in repository.files:
            print("import_graph: %s is no Python file of the repository" % given)
            bad = 1
            continue
        if path in repository.broken:
            print("import_graph: %s cannot be parsed: %s" % (given, repository.broken[path]))
            bad = 1
        found = describe(repository, path, options.depth)
        print(json.dumps(found) if options.json else render(found))
    return bad


class Repository(object):
    """Every Python file below a folder, and the imports between them."""

    def __init__(self, root):
        self.root = root
        self.files = sorted(self._walk())
        self.broken = {}
        self.roots = self._roots()
        self.modules = {}  # dotted name -> file
        self.names = {}  # file -> dotted names it can be imported by
        for path in self.files:
            for name in self._names(path):
                self.modules.setdefault(name, path)
                self.names.setdefault(path, []).append(name)
        self.edges = {path: self._edges(path) for path in self.files}
        self.importers = collections.defaultdict(list)
        for path in self.files:
            for edge in self.edges[path]:
                if edge.target is not None and edge.target != path:
                    self.importers[edge.target].append((path, edge.line))

    def _walk(self):
        count = 0
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(name for name in names if name not in FOREIGN and not name.endswith(".egg-info"))
            for name in sorted(files):
                if name.endswith(".py") and count < MAX_FILES:
                    count += 1
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def _roots(self):
        """Folders that modules are imported from, relative to the repository; "" is the repository itself."""
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        inside = [os.path.relpath(path, self.root) for path in given if path]
        wanted = [path for path in inside if path != "." and not path.startswith("..")] + ["src", "lib"]
        there = [path for path in wanted if os.path.isdir(os.path.join(self.root, path))]
        return list(collections.OrderedDict.fromkeys(there)) + [""]

    def _names(self, path):
        for root in self.roots:
            prefix = root + os.sep if root else ""
            if path.startswith(prefix):
                parts = path[len(prefix) : -len(".py")].split(os.sep)
                if parts[-1] == "__init__":
                    parts.pop()
                if parts and all(part.isidentifier() for part in parts):
                    yield ".".join(parts)

    def _edges(self, path):
        try:
            with open(os.path.join(self.root, path), "rb") as file:
                tree = ast.parse(file.read(), path)
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            self.broken[path] = "%s: %s" % (type(error).__name__, error)
            return []
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found += [self._edge(name.name, node.lineno) for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                for base in self._bases(path, node):
                    found += self._from(base, node)
        unique = collections.OrderedDict(((edge.target, edge.module), edge) for edge in reversed(found))
        return sorted(unique.values(), key=lambda edge: (edge.line, edge.module))

    def _bases(self, path, node):
        """The module that `from` names; a relative one counted from each name of the file."""
        if not node.level:
            return [node.module]
        is_package = os.path.basename(path) == "__init__.py"
        for name in self.names.get(path, [])[:1]:
            parts = name.split(".")
            parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
            base = ".".join(parts + ([node.module] if node.module else []))
            return [base] if base else []
        return []

    def _from(self, base, node):
        """`from a import b`: the file of a.b where there is one, else that of a."""
        found = []
        for name in node.names:
            inner = "%s.%s" % (base, name.name)
            found.append(self._edge(inner if inner in self.modules else base, node.lineno))
        return found

    def _edge(self, module, line):
        own = module
        while own and own not in self.modules:
            own = own.rpartition(".")[0]
        return Edge(self.modules.get(own), module, line)


def describe(repository, path, depth):
    edges = repository.edges[path]
    imports = [{"file": one.target, "module": one.module, "line": one.line} for one in edges if one.target is not None]
    outside = sorted({one.module.partition(".")[0] for one in edges if one.target is None})
    return {"file": path, "imports": imports, "outside": outside, "imported_by": importers(repository, path, depth)}


def importers(repository, path, depth):
    """Files that import `path`, breadth first, each by its shortest way."""
    found = []
    seen = {path}
    level = [path]
    for distance in range(1, depth + 1):
        following = []
        for target in level:
            for file, line in repository.importers[target]:
                if file not in seen:
                    seen.add(file)
                    following.append(file)
                    through = None if target == path else target
                    found.append({"file": file, "line": line, "through": through, "depth": distance})
        level = following
    return found


def render(found):
    lines = [found["file"], "  imports:"]
    lines += [
        "    %s:%d  %s (%s)" % (found["file"], one["line"], one["file"], one["module"]) for one in found["imports"]
    ]
    if found["outside"]:
        lines.append("    from outside: " + ", ".join(found["outside"]))
    if not found["imports"] and not found["outside"]:
        lines.append("    nothing")
    lines.append("  imported by:")
    for one in found["imported_by"]:
        through = " through %s" % one["through"] if one["through"] else ""
        lines.append("    %s:%d%s" % (one["file"], one["line"], through))
    if not found["imported_by"]:
        lines.append("    no file of the repository")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
