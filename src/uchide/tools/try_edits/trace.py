"""Runs a script once under a tracer and writes what its repository code did. Started as a program.

`trace.py SCRIPT ROOT OUT`: OUT gets, with paths relative to ROOT,
- "lines": {path: {line: [runtime hits, import-time hits, last use]}}, files in the order in which they were loaded,
- "functions": {path: {first line: calls}}, "values": {path: {"first-line parameter": [kinds of values]}},
- "raised": [[path, line, exception type, depth]], "returned": [[path, first line, text of a small value]],
- "modules": [[name, file] imported from outside ROOT, standard library first], "events": n, "failure": type or null.
"""

import json
import os
import sys

MAX_EVENTS = 1500000
MAX_NOTES = 4000
CONTAINERS = (str, bytes, int, float, list, tuple, dict, set)  # exact types: foreign code must not run
SMALL = (str, bytes, int, float, bool, type(None))


class Tracer:
    """Counts lines of files under a root; notes exceptions and small return values."""

    def __init__(self, root, script):
        self.root = os.path.realpath(root) + os.sep
        self.script = os.path.realpath(script)
        self.names = {}
        self.lines = {}
        self.functions = {}
        self.raised = []
        self.returned = []
        self.kinds = {}
        self.importing = 0
        self.events = 0

    def name(self, filename):
        if filename not in self.names:
            path = os.path.realpath(filename)
            inside = path.startswith(self.root) and path != self.script and os.path.exists(path)
            skip = os.sep + "site-packages" + os.sep in path
            self.names[filename] = path[len(self.root) :] if inside and not skip else None
        return self.names[filename]

    def start(self, frame, event, _arg):
        name = self.name(frame.f_code.co_filename)
        if name is None or self.events > MAX_EVENTS:
            return None
        first = frame.f_code.co_firstlineno
        if frame.f_code.co_name == "<module>":
            self.importing += 1
        elif not self.importing:
            calls = self.functions.setdefault(name, {})
            calls[first] = calls.get(first, 0) + 1
            self.note_kinds(name, first, frame)
        lines = self.lines.setdefault(name, {})

        def local(frame, event, arg):
            self.events += 1
            if event == "line":
                entry = lines.setdefault(frame.f_lineno, [0, 0, 0])
                entry[1 if self.importing else 0] += 1
                entry[2] = self.events
            elif event == "exception":
                self.note_raise(name, frame, arg)
            elif event == "return":
                self.note_return(name, frame, arg)
            return local

        return local

    def note_kinds(self, name, first, frame):
        code = frame.f_code
        kinds = self.kinds.setdefault(name, {})
        for variable in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if variable in frame.f_locals:
                value = frame.f_locals[variable]
                kind = type(value).__name__
                if value is None or value is True or value is False:
                    kind = str(value)
                elif type(value) in CONTAINERS and not value:
                    kind = "empty " + kind
                known = kinds.setdefault("%d %s" % (first, variable), [])
                if kind not in known and len(known) < 6:
                    known.append(kind)

    def note_raise(self, name, frame, arg):
        kind = arg[0]
        if self.importing or kind in (StopIteration, GeneratorExit) or len(self.raised) >= MAX_NOTES:
            return
        depth = 0
        back = frame
        while back is not None:
            depth += 1
            back = back.f_back
        self.raised.append([name, frame.f_lineno, kind.__name__, depth])

    def note_return(self, name, frame, arg):
        if frame.f_code.co_name == "<module>":
            self.importing -= 1
        elif not self.importing and type(arg) in SMALL and len(self.returned) < MAX_NOTES:
            text = arg if type(arg) is str else repr(arg)
            if len(text) < 400:
                self.returned.append([name, frame.f_code.co_firstlineno, text])


def main(argv):
    script, root, out = argv
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    sys.argv[:] = [script]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    known = set(sys.modules)
    tracer = Tracer(root, script)
    module = type(sys)("__main__")
    module.__dict__.update({"__file__": script, "__builtins__": __builtins__})
    sys.modules["__main__"] = module
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    failure = None
    sys.settrace(tracer.start)
    try:
        exec(code, module.__dict__)
    except BaseException as exc:
        failure = type(exc).__name__
    finally:
        sys.settrace(None)
    outside = []
    for name, value in list(sys.modules.items()):
        path = getattr(value, "__file__", None)
        inside = path is not None and os.path.realpath(path).startswith(tracer.root)
        if name not in known and not inside and not name.startswith("_") and name != "__main__":
            outside.append((path is not None and "site-packages" in path, name, path))
    report = {"lines": tracer.lines, "functions": tracer.functions, "raised": tracer.raised, "failure": failure}
    report.update(
        {
            "returned": tracer.returned,
            "values": tracer.kinds,
            "events": tracer.events,
            "modules": [row[1:] for row in sorted(outside, key=lambda row: row[0])],
        }
    )
    with open(out, "w", encoding="utf-8") as file:
        json.dump(report, file, sort_keys=False)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
