"""Serves changed source text to Python's importer from memory; the tree and its byte code stay untouched.

Also a `sitecustomize`: a folder holding a copy of this file under that name, first on PYTHONPATH, makes every
Python process see the edits in the JSON file named by TRY_EDITS_OVERLAY ({absolute path: source text}).
"""

import importlib.machinery
import json
import os
import sys


def install(sources, before_load=None, compiler=None, codes=None):
    """Answer imports of the paths in `sources` with its text. `before_load(path)` runs first for every source file.

    `compiler(text, path)` may give a code object; None means an ordinary compile. `codes` is code of unchanged files.
    """
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self, fullname):
        path = os.path.realpath(self.path)
        if before_load is not None:
            before_load(path)
        text = sources.get(path)
        if text is None:
            return codes[path] if codes and path in codes else original(self, fullname)
        code = compiler(text, path) if compiler is not None else None
        return code if code is not None else compile(text, self.path, "exec", dont_inherit=True)

    loader.get_code = get_code


def _chain():
    """Run the sitecustomize that this one hides, if the interpreter has another."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        pass


if __name__ == "sitecustomize":
    with open(os.environ["TRY_EDITS_OVERLAY"], encoding="utf-8") as _file:
        install(json.load(_file))
    _chain()
