"""Show who calls given functions while a command runs.

    python caller_trace.py --target PATH.py:NAME [--target ...] [--max 2000] [--paths 10] [--out F.jsonl] -- COMMAND ...

NAME is a function, Class.method, a nested function as outer.inner, a class (its __init__), or a line number (the
function around it). COMMAND is anything that runs Python, as it stands; its output and exit code are passed through.
Printed after it, per target: the direct callers with counts, the most frequent call paths through the repository's own
files (cut at the test), and the tests that reach it. For a target that was never called: which functions with such a
call ran, and which did not.
--out gets JSON lines {"file", "line", "func", "event": "call", "vars", "hit", "pid", "thread", "test", "stack"}, `vars`
being the arguments and `stack` [file, line, function] from the caller outwards; last, the totals.
"""

import argparse
import ast
import atexit
import collections
import json
import os
import sys

import _tracing

FOREIGN = ("site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox", "node_modules", ".git")
GENERATOR = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
MAX_DEPTH = 60
MAX_SCAN_FILES = 3000


# ------------------------------------------------------------------------------------------------ inside the processes
class CallTracer(object):
    """Records calls of the targets, and the first call of every function that could call them."""

    def __init__(self, config, events):
        self.config = config
        self.events = events
        self.wanted = {}  # (real path, first line, name) -> index of the target
        for index, target in enumerate(config["targets"]):
            self.wanted.update(((target["path"], line, target["name"]), index) for line in target["lines"])
        self.watched = {(path, line, name) for path, lines, name in config["watched"] for line in lines}
        self.paths = {path for path, _, _ in set(self.wanted) | self.watched}
        self.files = {}  # co_filename -> path relative to the root, None for foreign files
        self.real = {}
        self.seen = set()
        self.counts = collections.Counter()
        self.recorded = 0
        self.threads = _tracing.Threads()

    def real_path(self, filename):
        if filename not in self.real:
            self.real[filename] = os.path.realpath(filename)
        return self.real[filename]

    def own(self, filename):
        """Path relative to the root of a file of the repository, else None."""
        if filename not in self.files:
            path = os.path.relpath(self.real_path(filename), self.config["root"])
            foreign = path.startswith("..") or filename.startswith("<") or set(path.split(os.sep)) & set(FOREIGN)
            self.files[filename] = None if foreign else path
        return self.files[filename]

    def interesting(self, code):
        """(target index or None, whether it is a watched caller) of a code object."""
        path = self.real_path(code.co_filename)
        if path not in self.paths:
            return None, False
        key = (path, code.co_firstlineno, code.co_name)
        return self.wanted.get(key), key in self.watched

    def called(self, code, frame):
        """One call. True if this code object needs no further look."""
        target, watched = self.interesting(code)
        if watched and (code.co_filename, code.co_firstlineno) not in self.seen:
            self.seen.add((code.co_filename, code.co_firstlineno))
            self.events.write({"k": "ran", "file": self.own(code.co_filename), "line": code.co_firstlineno})
        if target is None:
            return True
        self.counts[target] += 1
        if self.recorded < self.config["max"]:
            self.recorded += 1
            self.write(target, frame)
        return False

    def write(self, target, frame):
        code = frame.f_code
        stack, outer = [], frame.f_back
        while outer is not None and len(stack) < MAX_DEPTH:
            path = self.own(outer.f_code.co_filename)
            if path is not None:
                inner = outer.f_code
                stack.append(
                    [path, outer.f_lineno, getattr(inner, "co_qualname", inner.co_name).replace(".<locals>", "")]
                )
                if inner.co_name.startswith("test") and os.path.basename(path).startswith(("test", "conftest")):
                    break
            outer = outer.f_back
        record = {"k": "call", "target": target, "file": self.own(code.co_filename), "line": code.co_firstlineno}
        record.update(hit=self.counts[target], thread=self.threads.number(), stack=stack)
        record.update(vars=_tracing.snapshot(frame), test=_tracing.test_name(frame))
        self.events.write(record)

    def finish(self, replaced):
        self.events.write({"k": "end", "counts": sorted(self.counts.items()), "replaced": replaced})


def start(config, events):
    """Called in every traced process."""
    tracer = CallTracer(config, events)
    events.write({"k": "alive"})
    tool = _tracing.take_monitoring_id("caller_trace")
    if tool is None:
        start_profile(tracer)
    else:
        start_monitoring(tracer, tool)


def start_profile(tracer):
    import threading

    def on_call(frame, event, arg):
        code = frame.f_code
        resumed = code.co_flags & GENERATOR and frame.f_lineno != code.co_firstlineno
        if event == "call" and not resumed:
            tracer.called(code, frame)

    def finish():
        replaced = sys.getprofile() is not on_call
        sys.setprofile(None)
        tracer.finish(replaced)

    threading.setprofile(on_call)
    sys.setprofile(on_call)
    atexit.register(finish)


def start_monitoring(tracer, tool):
    monitoring = sys.monitoring

    def on_start(code, offset):
        return monitoring.DISABLE if tracer.called(code, sys._getframe(1)) else None

    def finish():
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
        tracer.finish(False)

    monitoring.register_callback(tool, monitoring.events.PY_START, on_start)
    monitoring.set_events(tool, monitoring.events.PY_START)
    atexit.register(finish)


# -------------------------------------------------------------------------------------------------------- the outside
def functions(tree):
    """[(qualified name, node)] of all functions and classes, outermost first."""
    found, queue = [], collections.deque([("", tree)])
    while queue:
        prefix, node = queue.popleft()
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = prefix + ("." if prefix else "") + child.name
                found.append((name, child))
            queue.append((name, child))
    return found


def first_lines(node):
    """Lines a code object may give as its first: the def line, or its first decorator's."""
    return sorted({node.lineno} | {decorator.lineno for decorator in node.decorator_list})


def last_line(node):
    return max(getattr(inner, "lineno", 0) for inner in ast.walk(node))


def parse_python(path):
    with open(path, "rb") as file:
        return ast.parse(file.read(), path)


def parse_target(text):
    """What a --target value names, as the tracer needs it."""
    path, _, name = text.rpartition(":")
    if not path or not name:
        raise argparse.ArgumentTypeError("%r: give PATH.py:NAME or PATH.py:LINE" % text)
    try:
        found = functions(parse_python(path))
    except OSError as error:
        raise argparse.ArgumentTypeError("%s: %s" % (path, error.strerror))
    except (SyntaxError, ValueError) as error:
        raise argparse.ArgumentTypeError("%s: %s" % (path, error))
    plain = [(known, node) for known, node in found if not isinstance(node, ast.ClassDef)]
    if name.isdigit():
        line = int(name)
        matches = [(known, node) for known, node in plain if first_lines(node)[0] <= line <= last_line(node)][-1:]
        if not matches:
            raise argparse.ArgumentTypeError("%s: line %d is in no function" % (path, line))
    else:
        matches = [pair for pair in plain if pair[0] == name] or [
            pair for pair in plain if pair[0] == name + ".__init__"
        ]
    if not matches:
        near = [
            known
            for known, _ in plain
            if known.rpartition(".")[2] == name.rpartition(".")[2] or known.startswith(name + ".")
        ]
        near = near or [known for known, _ in plain]
        text = ", ".join(near[:12]) + (" ..." if len(near) > 12 else "")
        raise argparse.ArgumentTypeError("%s: no function %s; there are: %s" % (path, name, text or "none"))
    lines = sorted({line for _, node in matches for line in first_lines(node)})
    known, node = matches[0]
    return {"path": os.path.realpath(path), "lines": lines, "name": node.name, "qualname": known, "text": text}


def python_files(root):
    """Python files of the repository, no environments or hidden folders."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in FOREIGN and not name.startswith("."))
        found.extend(os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))
        if len(found) >= MAX_SCAN_FILES:
            break
    return found[:MAX_SCAN_FILES]


def possible_callers(targets, root):
    """[(target index, path, qualified name, node)] of functions that hold a call by the target's name."""
    words = {}
    for index, target in enumerate(targets):
        word = target["name"] if target["name"] != "__init__" else target["qualname"].split(".")[-2]
        words.setdefault(word, []).append(index)
    callers = []
    for path in python_files(root):
        with open(path, "rb") as file:
            data = file.read()
        if not any(word.encode("utf-8") in data for word in words):
            continue
        try:
            found = functions(ast.parse(data, path))
        except (SyntaxError, ValueError):
            continue
        for known, node in found:
            if not isinstance(node, ast.ClassDef):
                called = {
                    getattr(n.func, "attr", getattr(n.func, "id", None))
                    for n in ast.walk(node)
                    if isinstance(n, ast.Call)
                }
                callers.extend((i, path, known, node) for word in called & set(words) for i in words[word])
    return callers


def summarise(calls, paths):
    """Lines about the recorded calls of one target."""
    direct = collections.Counter(
        "%s:%d %s" % tuple(call["stack"][0]) if call["stack"] else "(foreign code)" for call in calls
    )
    routes = collections.Counter(tuple(tuple(place) for place in call["stack"]) for call in calls)
    tests = collections.Counter(call["test"] for call in calls if call["test"])
    out = ["  direct callers:"]
    out += ["    %5d x %s" % (count, place) for place, count in direct.most_common(20)]
    out += ["    ... and %d more" % (len(direct) - 20)] if len(direct) > 20 else []
    out.append("  paths (%d of %d, innermost first):" % (min(paths, len(routes)), len(routes)))
    for route, count in routes.most_common(paths):
        out.append(
            "    %5d x %s" % (count, "\n            < ".join("%s:%d %s" % place for place in route) or "(foreign code)")
        )
    if tests:
        out.append("  tests that reach it (%d):" % len(tests))
        out += ["    %5d x %s" % (count, test) for test, count in tests.most_common(20)]
        out += ["    ... and %d more" % (len(tests) - 20)] if len(tests) > 20 else []
    return out + ["  arguments of the first call: " + "  ".join("%s=%s" % pair for pair in calls[0]["vars"].items())]


def never_called(index, callers, ran, root):
    mine = [(os.path.relpath(path, root), known, node) for i, path, known, node in callers if i == index]
    reached = [m for m in mine if any((m[0], line) in ran for line in first_lines(m[2]))]
    out = ["  never called."]
    for title, group in (("ran, without calling it", reached), ("did not run", [m for m in mine if m not in reached])):
        if group:
            out.append("  functions with a call of that name that %s:" % title)
            out += ["    %s:%d %s" % (path, node.lineno, known) for path, known, node in group[:10]]
            out += ["    ... and %d more" % (len(group) - 10)] if len(group) > 10 else []
    return out if mine else out + ["  no function of the repository holds a call of that name."]


def report(options, root, rc, records, callers, out):
    calls = [record for record in records if record["k"] == "call"][: options.max]
    ran = {(record["file"], record["line"]) for record in records if record["k"] == "ran"}
    ends = [record for record in records if record["k"] == "end"]
    totals = collections.Counter()
    for record in ends:
        totals.update(dict(record["counts"]))
    print("---- caller_trace ----")
    for index, target in enumerate(options.target):
        mine = [call for call in calls if call["target"] == index]
        number = max(totals[index], len(mine))
        print(
            "%s:%d %s: %d calls"
            % (os.path.relpath(target["path"], root), target["lines"][-1], target["qualname"], number)
        )
        print("\n".join(summarise(mine, options.paths) if mine else never_called(index, callers, ran, root)))
    processes = {record["pid"] for record in records}
    if not processes:
        print("no Python process was traced: the command starts none, or starts it with -I, -E or -S")
    if any(record["replaced"] for record in ends):
        print("something replaced the tracer in a process (a profiler, coverage); calls may be missing")
    full = sum(totals.values()) > len(calls)
    print(
        "total: %d calls recorded in %d processes, exit code %d%s"
        % (len(calls), len(processes), rc, "; TRUNCATED at --max %d" % options.max if full else "")
    )
    if out is not None:
        with out:
            for call in calls:
                target = options.target[call.pop("target")]
                del call["k"]
                out.write(json.dumps(dict(call, func=target["qualname"], event="call")) + "\n")
            out.write(json.dumps({"total": len(calls), "truncated": full, "exit_code": rc}) + "\n")


def main(argv):
    own, command = _tracing.split_args(argv)
    parser = argparse.ArgumentParser(prog="caller_trace.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", action="append", required=True, type=parse_target, metavar="PATH.py:NAME|LINE")
    parser.add_argument("--max", type=int, default=2000, help="calls recorded in all (2000)")
    parser.add_argument("--paths", type=int, default=10, help="call paths printed per target (10)")
    parser.add_argument("--out", metavar="F.jsonl")
    options = parser.parse_args(own)
    if not command:
        parser.error("no command: give it after --")
    _tracing.utf8_stdout()
    root = os.path.realpath(".")
    callers = possible_callers(options.target, root)
    watched = [(os.path.realpath(path), first_lines(node), node.name) for _, path, _, node in callers]
    config = {"tool": os.path.abspath(__file__), "root": root, "targets": options.target, "watched": watched}
    out = _tracing.open_out(options.out)
    rc, records = _tracing.run(dict(config, max=options.max), command)
    report(options, root, rc, records, callers, out)
    return rc


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
