"""Digests of code: what a part is made by, comments and blank lines aside.

A part names one entry module. Its digest covers that module and every module of `uchide` it imports (functions'
imports included, followed name by name through packages that only re-export), plus the package data it declares. The
frame (store, paths, errors) is left out: what it may change is covered by `parts.SCHEMA`. Comments are cut out of the
text; a dump of the syntax tree would differ between Python versions.
"""

import ast
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from uchide.errors import PlanError
from uchide.paths import cache_dir
from uchide.pipeline.source import strip_comments
from uchide.records import digest
from uchide.store.atomic import write_bytes

FRAME = ("uchide.store", "uchide.paths", "uchide.errors")
_FORMAT = 1
"""Raise when the meaning of `Facts` or `strip_comments` changes: what was remembered is forgotten."""
_REMEMBERED = 4000

Use = tuple[str, str | None]
"""(module, name imported from it or None)."""


class Facts(TypedDict):
    """What there is to know about one source file."""

    digest: str
    uses: list[Use]
    """Everything of uchide it imports, anywhere."""
    exports: dict[str, Use]
    """Names bound at the top level by such an import."""


class CodeBase:
    """The sources of a checkout, each read once. What parsing found is remembered by content in the user's cache."""

    def __init__(self, root: Path, memory: Path | None = None) -> None:
        self.root = root
        self._memory_path = memory or cache_dir() / "code-digests.json"
        self._facts: dict[tuple[Path, str], Facts] = {}
        self._keys: set[str] = set()
        self._learned: dict[str, Facts] = {}

    def part_digest(self, entry: str, program: str, data: Iterable[str]) -> str:
        """Digest of a part: all that `entry` imports, its program in `stages/`, and globs of data under `src/uchide`.

        Raises PlanError on a file that is missing or is not Python.
        """
        modules = {name: self._fact(path, name)["digest"] for name, path in self.closure(entry).items()}
        files = {f"stages/{program}": self._fact(self.root / "stages" / program, "")["digest"]}
        source = self.root / "src" / "uchide"
        for pattern in data:
            for path in source.glob(pattern):
                if path.is_file() and "__pycache__" not in path.parts:
                    files[path.relative_to(source).as_posix()] = self._data_digest(path)
        return digest({"modules": modules, "files": files})[:16]

    def closure(self, entry: str) -> dict[str, Path]:
        """Module name -> file of everything `entry` imports from uchide, itself included."""
        found: dict[str, Path] = {}
        todo: list[Use] = [(entry, None)]
        seen = set(todo)
        while todo:
            for use in self._follow(*todo.pop(), found):
                if use not in seen:
                    seen.add(use)
                    todo.append(use)
        return found

    def save(self) -> None:
        """Remember what was learned, so that the next plan parses nothing."""
        if self._learned:
            facts = {**self._memory, **self._learned}
            if len(facts) > _REMEMBERED:
                facts = {key: facts[key] for key in self._keys}
            write_bytes(self._memory_path, json.dumps({"format": _FORMAT, "facts": facts}).encode())

    def _follow(self, module: str, name: str | None, found: dict[str, Path]) -> list[Use]:
        """Where importing `name` from `module` leads. A package that only re-exports the name is passed through."""
        if module.startswith(FRAME):
            return []
        if name is not None and self._locate(f"{module}.{name}"):
            return [(f"{module}.{name}", None)]
        path = self._locate(module)
        if path is None:
            raise PlanError(f"{module} is imported, but src/{module.replace('.', '/')}.py does not exist")
        facts = self._fact(path, module)
        if path.name == "__init__.py" and name in facts["exports"]:
            return [facts["exports"][name]]
        found[module] = path
        return facts["uses"]

    def _locate(self, module: str) -> Path | None:
        base = self.root / "src" / module.replace(".", "/")
        return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)

    def _fact(self, path: Path, module: str) -> Facts:
        if (path, module) not in self._facts:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise PlanError(f"{path} cannot be read: {error.strerror}") from error
            key = digest(module.encode() + b"\0" + data)
            if key not in self._memory and key not in self._learned:
                self._learned[key] = learn(path, module, data)
            self._keys.add(key)
            self._facts[path, module] = self._learned.get(key) or self._memory[key]
        return self._facts[path, module]

    def _data_digest(self, path: Path) -> str:
        """Data by content; Python files that are data (tools copied into a sandbox) without their comments."""
        return self._fact(path, "")["digest"] if path.suffix == ".py" else digest(path.read_bytes())

    @cached_property
    def _memory(self) -> dict[str, Facts]:
        try:
            stored = json.loads(self._memory_path.read_bytes())
        except (OSError, ValueError):
            return {}
        if stored.get("format") != _FORMAT:
            return {}
        return {key: _facts(**value) for key, value in stored["facts"].items()}


def _facts(digest: str, uses: list[list[str]], exports: dict[str, list[str]]) -> Facts:
    return {
        "digest": digest,
        "uses": [(module, name) for module, name in uses],
        "exports": {bound: (module, name) for bound, (module, name) in exports.items()},
    }


def learn(path: Path, module: str, data: bytes) -> Facts:
    """Parse one file. Raises PlanError when it is not Python."""
    try:
        text = data.decode("utf-8-sig")
        tree = ast.parse(text)
        stripped = strip_comments(text)
    except (SyntaxError, ValueError) as error:
        raise PlanError(f"{path} is not Python: {error}", hint="no stage can be planned on broken code") from error
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    uses = [use for node in ast.walk(tree) for _, use in _bindings(node, package)]
    exports = {name: use for node in tree.body for name, use in _bindings(node, package)}
    return {"digest": digest(stripped), "uses": uses, "exports": exports}


def _bindings(node: ast.AST, package: str) -> Iterator[tuple[str, Use]]:
    """(local name, what it stands for) of an import statement that concerns uchide."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "uchide":
                yield alias.asname or alias.name.split(".")[0], (alias.name, None)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            pieces = package.split(".")
            base = ".".join([*pieces[: len(pieces) - node.level + 1], *([base] if base else [])])
        if base.split(".")[0] == "uchide":
            for alias in node.names:
                yield alias.asname or alias.name, (base, alias.name)
