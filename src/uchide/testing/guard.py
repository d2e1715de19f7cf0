"""What a patch may not touch when it is judged: tests, their configuration, and what could stand in for them."""

from collections.abc import Iterable
from dataclasses import dataclass

from uchide.records import HiddenInstance, PublicInstance
from uchide.testing.paths import is_inside, is_test_configuration, is_test_file, roots_of_tests

SUBMODULE = "160000"


@dataclass(frozen=True)
class Change:
    """One path that a patch adds (`A`), modifies (`M`), deletes (`D`) or turns into another kind of file (`T`)."""

    path: str
    kind: str
    mode: str
    """Git's mode after the change: 100644, 100755, 120000 (symbolic link), 160000 (submodule), 000000 (deleted)."""


@dataclass(frozen=True)
class Guard:
    """The paths out of a patch's reach, and the folders (relative, "" is the root) that modules are imported from."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    import_roots: tuple[str, ...] = ("",)

    def refuses(self, change: Change) -> bool:
        """Whether the change is left out. A link in place of a folder that holds tests is refused with them."""
        path = change.path
        if change.mode == SUBMODULE or path in self.files or is_test_file(path) or is_test_configuration(path):
            return True
        below = path + "/"
        return is_inside(path, self.folders) or any(kept.startswith(below) for kept in self.files | self.folders)


def make_guard(instance: PublicInstance, test_files: Iterable[str], ids: Iterable[str] = ()) -> Guard:
    """Guard for tests in these files or with these ids, run by the instance's runner."""
    built = instance.environment
    files = {path for path in test_files if path}
    files |= {path for path in (test.partition("::")[0] for test in ids) if path.endswith(".py")}
    files |= {word for word in built.runner.argv if word.endswith(".py")}
    roots = dict.fromkeys(folder.strip("/").removeprefix("./").removesuffix(".") for folder in built.pythonpath)
    return Guard(frozenset(files), roots_of_tests(files), tuple(dict.fromkeys(("", *roots))))


def hidden_guard(instance: PublicInstance, hidden: HiddenInstance) -> Guard:
    """Guard for the hidden tests of an instance."""
    paths = [file.path for file in hidden.test_files] + list(hidden.test_paths)
    return make_guard(instance, paths, hidden.fail_to_pass + hidden.pass_to_pass)


def importable(path: str, root: str) -> str:
    """Top-level module that `path` is, or belongs to, for imports from the folder `root`; "" when none."""
    prefix = f"{root}/" if root else ""
    if not path.startswith(prefix):
        return ""
    top, slash, _ = path.removeprefix(prefix).partition("/")
    if slash:
        return top
    return top.partition(".")[0] if top.endswith((".py", ".pyc", ".so")) else ""
