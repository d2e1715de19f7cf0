"""Show a class's method resolution order, and which class each of its methods comes from.

    python mro_check.py PACKAGE.MODULE:CLASS [--method NAME] [--all] [--json]
    python mro_check.py PATH.py:CLASS ...

The class is imported, so its module's own imports run. Printed: the classes in resolution order with file and line, and
per method the class that defines it and the classes whose version it hides. With --method only that one, with --all
also names that begin with an underscore. --json prints one object {"class", "mro": [{"class", "file", "line"}],
"methods": [{"name", "defined_in", "kind", "hides"}]} instead.
Exit: 0; 1 there is no such class or method, or it cannot be imported; 2 usage.
"""

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import sys


class Problem(Exception):
    """A plain line for the user."""


def main(argv):
    parser = argparse.ArgumentParser(
        prog="mro_check.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("target", metavar="MODULE_OR_PATH:CLASS")
    parser.add_argument("--method", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    where, colon, name = options.target.rpartition(":")
    if not colon or not where or not name:
        parser.error("a class is written MODULE:CLASS or PATH.py:CLASS")
    try:
        found = describe(find(where, name), options.method, options.all)
    except Problem as problem:
        print("mro_check: %s" % problem)
        return 1
    print(json.dumps(found) if options.json else render(found))
    return 0


def find(where, name):
    """The class `name` (dots for nested ones) of a module or a file."""
    thing = load(where)
    for part in name.split("."):
        if not hasattr(thing, part):
            classes = sorted(key for key, value in vars(thing).items() if inspect.isclass(value))
            raise Problem("%s has no %r; classes there: %s" % (where, part, ", ".join(classes[:20]) or "none"))
        thing = getattr(thing, part)
    if not inspect.isclass(thing):
        raise Problem("%s:%s is a %s, not a class" % (where, name, type(thing).__name__))
    return thing


def load(where):
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if where.endswith(".py"):
            return load_file(os.path.abspath(where))
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        raise Problem("%s cannot be imported: %s: %s" % (where, type(error).__name__, error))


def load_file(path):
    """A file as the module it is in its package, so that its relative imports work."""
    if not os.path.isfile(path):
        raise Problem("there is no file %s" % path)
    folder, base = os.path.split(path[:-3])
    names = [] if base == "__init__" else [base]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, part = os.path.split(folder)
        names.insert(0, part)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(".".join(names))


def describe(cls, method, everything):
    mro = inspect.getmro(cls)
    names = {name for one in mro for name, value in vars(one).items() if is_method(value)}
    if method is not None and method not in names:
        raise Problem("%s has no method %r" % (full_name(cls), method))
    if method is None:
        names = {name for name in names if everything or not name.startswith("_") or name == "__init__"}
        if not everything:
            names = {name for name in names if owners(mro, name)[0] is not object}
    methods = []
    for name in sorted({method} if method is not None else names):
        first, hidden = owners(mro, name)[0], owners(mro, name)[1:]
        methods.append(
            {
                "name": name,
                "defined_in": full_name(first),
                "kind": kind(vars(first)[name]),
                "hides": [full_name(one) for one in hidden if one is not object],
            }
        )
    return {"class": full_name(cls), "mro": [place(one) for one in mro], "methods": methods}


def is_method(value):
    return inspect.isroutine(value) or isinstance(value, (classmethod, staticmethod, property))


def kind(value):
    for known in (classmethod, staticmethod, property):
        if isinstance(value, known):
            return known.__name__
    return "method"


def owners(mro, name):
    """The classes that define `name` themselves, in resolution order."""
    return [one for one in mro if name in vars(one)]


def full_name(cls):
    return cls.__qualname__ if cls.__module__ == "builtins" else "%s.%s" % (cls.__module__, cls.__qualname__)


def place(cls):
    """Where a class stands; file and line are null for those written in C or made at run time."""
    try:
        path, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (TypeError, OSError):
        return {"class": full_name(cls), "file": None, "line": None}
    short = os.path.relpath(path) if path else None
    return {"class": full_name(cls), "file": path if short and short.startswith("..") else short, "line": line}


def render(found):
    lines = ["Resolution order of %s" % found["class"]]
    for number, one in enumerate(found["mro"], start=1):
        where = "  %s:%d" % (one["file"], one["line"]) if one["file"] else ""
        lines.append("%3d. %s%s" % (number, one["class"], where))
    lines.append("")
    for one in found["methods"]:
        hides = "; hides %s" % ", ".join(one["hides"]) if one["hides"] else ""
        lines.append("%s: %s of %s%s" % (one["name"], one["kind"], one["defined_in"], hides))
    if not found["methods"]:
        lines.append("no methods of its own (--all shows those of object too)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
