"""What line_trace.py and caller_trace.py share: getting into every Python process of a command, events, values.

A command is traced by a temporary folder on PYTHONPATH whose sitecustomize.py starts the tracer, so any command works:
pytest, tests/runtests.py, make, and the Python processes that those start. `python -I/-E/-S` ignore it; such a command
is started through this file instead. Every process appends to a file of its own, one JSON line at once, because
os._exit and kills skip clean-up; a fork goes on in a new file.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types

VARIABLE = "UCHIDE_TRACE"
SITECUSTOMIZE = """\
import sys
_own = sys.modules.pop("sitecustomize", None)
sys.path[:] = [p for p in sys.path if p != {folder!r}]
try:
    import sitecustomize
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    if _own is not None:
        sys.modules["sitecustomize"] = _own
sys.path.insert(0, {tools!r})
try:
    import _tracing
finally:
    sys.path.remove({tools!r})
_tracing.start_from_environment()
"""


# ------------------------------------------------------------------------------------------------------------- values
def type_name(kind):
    return type.__dict__["__name__"].__get__(kind)  # a metaclass may have a __name__ of its own


def attributes(value):
    """The plain instance dictionary, None if there is none; runs no code of the object."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        descriptor = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if descriptor is not None:
            return descriptor.__get__(value) if type(descriptor) is types.GetSetDescriptorType else None
    return None


def show(value, size=80, depth=2):
    """Short text of a value. Never calls a __repr__, __str__ or property of foreign code."""
    kind = type(value)
    try:
        if value is None or kind in (bool, float, complex):
            return repr(value)
        if kind is int:
            return repr(value) if value.bit_length() < 256 else "<int of %d bits>" % value.bit_length()
        if kind in (str, bytes, bytearray):
            text = repr(value[:size])
            return text if len(value) <= size else "%s...(%d)" % (text, len(value))
        if kind in (list, tuple, set, frozenset):
            return show_items(value, kind, size, depth)
        if kind is dict:
            pairs = [] if depth < 1 else list(value.items())[:6]
            inner = ["%s: %s" % (show(k, size // 2, depth - 1), show(v, size // 2, depth - 1)) for k, v in pairs]
            return "{%s}" % ", ".join(inner + more(value, inner))
        if issubclass(kind, BaseException):
            return type_name(kind) + show(BaseException.__dict__["args"].__get__(value), size, 1)
        if issubclass(kind, (type, types.FunctionType, types.ModuleType, types.MethodType)):
            return "<%s>" % type_name(kind)
        inside = attributes(value) if depth > 0 else None
        pairs = [] if not inside else list(dict.items(inside))[:4]
        inner = [" %s=%s" % (k, show(v, size // 2, 0)) for k, v in pairs if type(k) is str]
        return "<%s%s>" % (type_name(kind), "".join(inner))
    except Exception as error:  # half-built or changing objects must not break the traced program
        return "<%s, unreadable: %s>" % (type_name(kind), type_name(type(error)))


def show_raised(kind, value):
    """An exception as traced: older Pythons give the bare argument of one that was raised in C."""
    return show(value) if isinstance(value, BaseException) else "%s(%s)" % (type_name(kind), show(value))


def more(value, shown):
    left = len(value) - len(shown)
    return ["...+%d" % left] if left > 0 else []


def show_items(value, kind, size, depth):
    items = [] if depth < 1 else list(value)[:8]
    inner = [show(item, size // 2, depth - 1) for item in items]
    text = ", ".join(inner + more(value, inner))
    if kind is list:
        return "[%s]" % text
    if kind is tuple:
        return "(%s,)" % text if len(value) == 1 else "(%s)" % text
    return "%s{%s}" % ("frozenset" if kind is frozenset else "", text) if value else kind.__name__ + "()"


def in_function(code):
    return bool(code.co_flags & 1)  # CO_OPTIMIZED: not a module or a class body


def snapshot(frame):
    """{name: short text} of a frame's variables; outside functions without dunders, modules, functions and classes."""
    items = list(frame.f_locals.items())
    if not in_function(frame.f_code):
        plain = (types.ModuleType, types.FunctionType, type, types.BuiltinFunctionType)
        items = [(k, v) for k, v in items if not (k.startswith("__") or isinstance(v, plain))]
    return {name: show(value) for name, value in items[:60]}


# ------------------------------------------------------------------------------------------------ inside the processes
def out_of_the_way(fd):
    """The descriptor moved to a high number, where programs that close or reuse low ones leave it alone."""
    import fcntl

    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 700)
    except (OSError, ValueError):  # the limit of open files is lower
        os.set_inheritable(fd, False)
        return fd
    os.close(fd)
    return high


class EventFile(object):
    """Appends records of this process; after a fork, of the child, in a file of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.pid = self.fd = None
        self.lost = 0

    def write(self, record):
        if os.getpid() != self.pid:
            self.pid = os.getpid()
            name = "%d-%d.jsonl" % (time.time() * 1e6, self.pid)
            fd = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self.fd = out_of_the_way(fd)
            self.write({"k": "start", "pid": self.pid})
        try:
            os.write(self.fd, (json.dumps(record) + "\n").encode("ascii"))
        except OSError:  # closed by the program, or no space: never the program's problem
            self.lost += 1


class Threads(object):
    """Small numbers for threads, in the order they were seen; asks nothing of the threading module's objects."""

    def __init__(self):
        self.numbers = {}

    def number(self):
        import threading

        return self.numbers.setdefault(threading.get_ident(), len(self.numbers))


UNITTEST_CASE = os.path.join("unittest", "case.py")


def test_frame(frame):
    """The frame that runs a test body (pytest's call phase, unittest's test method) above this one, or None."""
    inner = ""
    while frame is not None:
        name, path = frame.f_code.co_name, frame.f_code.co_filename
        if name == "run" and path.endswith(UNITTEST_CASE):
            old = sys.version_info < (3, 8)  # these call the method straight from run
            body = not inner.startswith(("setUp", "tearDown", "doCleanups")) if old else inner == "_callTestMethod"
            return frame if body else None
        if name == "pytest_runtest_call" and "_pytest" in path and path.endswith("runner.py"):
            return frame
        inner, frame = name, frame.f_back
    return None


def test_name(frame):
    """Id of the running test as far as the stack or pytest's environment variable tells, else None."""
    named = os.environ.get("PYTEST_CURRENT_TEST")
    if named:
        return named.rpartition(" (")[0]
    while frame is not None:
        if frame.f_code.co_name == "run" and frame.f_code.co_filename.endswith(UNITTEST_CASE):
            inside = attributes(frame.f_locals.get("self")) or {}
            kind = type(frame.f_locals.get("self"))
            return "%s.%s.%s" % (kind.__module__, type_name(kind), inside.get("_testMethodName"))
        frame = frame.f_back
    return None


def start_from_environment():
    """Called in every traced process: load the tool named in the configuration and let it start."""
    import importlib.util

    config = json.loads(os.environ[VARIABLE])
    sys.modules.setdefault("_tracing", sys.modules[__name__])
    spec = importlib.util.spec_from_file_location("_uchide_tracer", config["tool"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.start(config, EventFile(config["folder"]))


def take_monitoring_id(name):
    """An id of sys.monitoring (Python 3.12 and newer), None where there is none or all are in use."""
    monitoring = getattr(sys, "monitoring", None)
    for number in (4, 3) if monitoring else ():
        if monitoring.get_tool(number) is None:
            monitoring.use_tool_id(number, name)
            return number
    return None


def run_inside():
    """`python -I _tracing.py -m MODULE ...` or `... SCRIPT ...`: start the tracer, then become the program."""
    import runpy

    start_from_environment()
    args = sys.argv[1:]
    own = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == own:
        sys.path[0] = os.getcwd() if args[0] == "-m" else os.path.dirname(os.path.abspath(args[0]))
    if args[0] == "-m":
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = args
        runpy.run_path(args[0], run_name="__main__")


# -------------------------------------------------------------------------------------------------------- the outside
def through_launcher(command):
    """The command, started through this file if its interpreter options would ignore PYTHONPATH or site."""
    if not os.path.basename(command[0]).startswith("python"):
        return command
    i, isolated = 1, False
    while i < len(command) and command[i].startswith("-") and command[i] not in ("-m", "-c", "-"):
        isolated = isolated or (not command[i].startswith("--") and bool(set(command[i][1:]) & set("IES")))
        i += 2 if command[i] in ("-W", "-X") else 1
    if not isolated or i >= len(command) or command[i] in ("-c", "-"):
        return command
    return command[:i] + [os.path.abspath(__file__)] + command[i:]


def run(config, command):
    """Run the command traced. (exit code, records of all processes in the order of their start)."""
    folder = tempfile.mkdtemp(prefix="trace.")
    boot = os.path.join(folder, "boot")
    tools = os.path.dirname(os.path.abspath(__file__))
    try:
        os.mkdir(boot)
        with open(os.path.join(boot, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(SITECUSTOMIZE.format(folder=boot, tools=tools))
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        env[VARIABLE] = json.dumps(dict(config, folder=folder))
        env["PYTHONPATH"] = boot + (os.pathsep + env["PYTHONPATH"] if env.get("PYTHONPATH") else "")
        sys.stdout.flush()
        try:
            rc = subprocess.call(through_launcher(command), env=env)
        except OSError as error:
            print("cannot run %r: %s" % (command[0], error.strerror))
            return 127, []
        return (128 - rc if rc < 0 else rc), read_records(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_records(folder):
    records = []
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".jsonl")):
        pid = int(name[:-6].rpartition("-")[2])
        with open(os.path.join(folder, name), encoding="ascii") as file:
            for line in file:
                if line.endswith("\n"):  # a killed process may leave half a line
                    records.append(dict(json.loads(line), pid=pid))
    return records


def split_args(argv):
    """Own arguments and the command after `--`."""
    if "--" not in argv:
        return argv, []
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :]


def open_out(path):
    return None if path is None else open(path, "w", encoding="ascii")


def utf8_stdout():
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    run_inside()
