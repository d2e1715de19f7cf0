"""Show which lines of given files a command runs, and what each line changed.

    python line_trace.py --file src/x.py[:10-40] [--file ...] [--hits 3] [--max 2000] [--show 200] [--no-vars]
                         [--test-only] [--out F.jsonl] -- COMMAND ...

COMMAND is anything that runs Python, as it stands: `python -m pytest tests/test_x.py::test_y`, a script, make. Its
output and exit code are passed through; the trace is printed after it. A folder as --file means all files below it.
Per line at most --hits events, in all --max. --test-only: only what runs from a test's body (not collection, not
fixtures).
--out gets JSON lines {"file", "line", "func", "event": line|return|exception, "vars", "hit", "pid", "thread"}, with
"before" (variables when the frame's first event was recorded) and "value" (returned or raised); last, the totals.
`vars` are the variables that the line changed. Values are shortened; no code of the traced program is called for that.
"""

import argparse
import atexit
import collections
import json
import os
import re
import sys

import _tracing


# ------------------------------------------------------------------------------------------------ inside the processes
class Frame(object):
    """What is known of a running frame."""

    __slots__ = ("active", "before", "raised", "seq")

    def __init__(self, active):
        self.active = active
        self.seq = None  # of the line whose changes are still to be told
        self.before = None
        self.raised = False


class LineTracer(object):
    """Turns line, return and exception events of frames into records. Both back ends below feed it."""

    def __init__(self, config, events):
        self.config = config
        self.events = events
        self.files = {}  # co_filename -> [[first, last], ...] or None
        self.shown = {}  # co_filename -> path relative to the root
        self.hits = {}
        self.codes = {}
        self.frames = {}
        self.spent = set()  # (code id, line, kind) with nothing left to record
        self.busy = set()  # ids of frames whose next event matters even so
        self.reached = set()
        self.recorded = self.seen = 0
        self.threads = _tracing.Threads()

    def ranges(self, filename):
        if filename not in self.files:
            real = os.path.realpath(filename)
            ranges = [
                [lo, hi] for path, lo, hi in self.config["files"] if real == path or real.startswith(path + os.sep)
            ]
            self.files[filename] = ranges or None
            if ranges:
                self.shown[filename] = os.path.relpath(real, self.config["root"])
        return self.files[filename]

    def state(self, frame):
        state = self.frames.get(id(frame))
        if state is None:
            active = not self.config["test_only"] or _tracing.test_frame(frame) is not None
            state = self.frames[id(frame)] = Frame(active)
        return state

    def settle(self, frame, state):
        """Tell what the line before this event changed; the variables as they are now."""
        now = _tracing.snapshot(frame)
        changed = {name: text for name, text in now.items() if state.before.get(name) != text}
        changed.update({name: "<deleted>" for name in state.before if name not in now})
        if changed:
            self.events.write({"k": "vars", "seq": state.seq, "vars": changed})
        state.seq = None
        return now

    def event(self, frame, kind, value=None):
        """One event. True if this line can yield no further record."""
        key = (id(frame.f_code), frame.f_lineno, kind)
        if key in self.spent and id(frame) not in self.busy:  # most events of a long run end here
            self.seen += 1
            return True
        state = self.state(frame)
        now = self.settle(frame, state) if state.seq is not None else None
        if kind == "return" and (state.raised or not _tracing.in_function(frame.f_code)):  # unwinding, told already
            return True
        state.raised = kind == "exception"
        spent = state.active and self.record(frame, state, key, value, now)
        if state.raised or state.seq is not None:
            self.busy.add(id(frame))
        else:
            self.busy.discard(id(frame))
        return spent

    def record(self, frame, state, key, value, now):
        """Write what is asked for and still below the caps. True if this line can yield no further record."""
        code, line = frame.f_code, key[1]
        self.seen += 1
        if (code.co_filename, line) not in self.reached:
            self.reached.add((code.co_filename, line))
            self.events.write({"k": "reach", "file": self.shown[code.co_filename], "line": line})
        hit = self.hits.get(key, 0) + 1
        inside = any(lo <= line <= hi for lo, hi in self.ranges(code.co_filename))
        if inside and hit <= self.config["hits"] and self.recorded < self.config["max"]:
            self.hits[key] = hit
            self.codes[key[0]] = code  # keeps the id taken
            self.recorded += 1
            self.write(frame, state, key[2], value, hit, now)
        if inside and hit < self.config["hits"] and self.recorded < self.config["max"]:
            return False
        self.codes[key[0]] = code
        self.spent.add(key)
        return True

    def write(self, frame, state, kind, value, hit, now):
        code = frame.f_code
        record = {"k": "event", "seq": self.recorded, "file": self.shown[code.co_filename], "line": frame.f_lineno}
        record.update(
            func=getattr(code, "co_qualname", code.co_name), event=kind, hit=hit, thread=self.threads.number()
        )
        if kind != "line":
            record["value"] = _tracing.show_raised(*value) if kind == "exception" else _tracing.show(value)
        if self.config["vars"]:
            now = _tracing.snapshot(frame) if now is None else now
            if state.before is None:
                record["before"] = now
            state.before = now
            if kind == "line":
                state.seq = self.recorded
        self.events.write(record)

    def leave(self, frame):
        self.frames.pop(id(frame), None)
        self.busy.discard(id(frame))

    def finish(self):
        self.events.write({"k": "end", "seen": self.seen, "replaced": False})


class SettraceBackend(object):
    """sys.settrace: every Python."""

    def __init__(self, tracer):
        self.tracer = tracer
        self.callback = self.on_call  # one object, to compare with later

    def start(self):
        import threading

        threading.settrace(self.callback)
        sys.settrace(self.callback)
        atexit.register(self.finish)

    def on_call(self, frame, event, arg):
        if self.tracer.ranges(frame.f_code.co_filename) is None:
            return None
        return self.on_event

    def on_event(self, frame, event, arg):
        if event == "line":
            self.tracer.event(frame, "line")
        elif event == "return":
            self.tracer.event(frame, "return", arg)
            self.tracer.leave(frame)
        elif event == "exception" and not issubclass(arg[0], (StopIteration, GeneratorExit)):
            self.tracer.event(frame, "exception", arg[:2])
        return self.on_event

    def finish(self):
        replaced = sys.gettrace() is not self.callback
        sys.settrace(None)
        self.tracer.events.write({"k": "end", "seen": self.tracer.seen, "replaced": replaced})


class MonitoringBackend(object):
    """sys.monitoring: Python 3.12 and newer; code in other files costs nothing."""

    def __init__(self, tracer, tool):
        self.tracer = tracer
        self.tool = tool

    def start(self):
        monitoring, events = sys.monitoring, sys.monitoring.events
        for event, callback in (
            (events.PY_START, self.on_start),
            (events.LINE, self.on_line),
            (events.PY_RETURN, self.on_return),
            (events.PY_YIELD, self.on_return),
            (events.RAISE, self.on_raise),
            (events.PY_UNWIND, self.on_unwind),
        ):
            monitoring.register_callback(self.tool, event, callback)
        monitoring.set_events(self.tool, events.PY_START | events.RAISE | events.PY_UNWIND)
        atexit.register(self.finish)

    def on_start(self, code, offset):
        if self.tracer.ranges(code.co_filename) is not None:
            events = sys.monitoring.events
            sys.monitoring.set_local_events(self.tool, code, events.LINE | events.PY_RETURN | events.PY_YIELD)
        return sys.monitoring.DISABLE

    def on_line(self, code, line):
        spent = self.tracer.event(sys._getframe(1), "line")
        # With variables a spent line still ends the line before it, so it stays on until the total is reached.
        full = self.tracer.recorded >= self.tracer.config["max"]
        return sys.monitoring.DISABLE if spent and (full or not self.tracer.config["vars"]) else None

    def on_return(self, code, offset, value):
        frame = sys._getframe(1)
        self.tracer.event(frame, "return", value)
        self.tracer.leave(frame)

    def on_raise(self, code, offset, error):
        if self.tracer.ranges(code.co_filename) is not None and not isinstance(error, (StopIteration, GeneratorExit)):
            self.tracer.event(sys._getframe(1), "exception", (type(error), error))

    def on_unwind(self, code, offset, error):
        if self.tracer.ranges(code.co_filename) is not None:
            frame = sys._getframe(1)
            state = self.tracer.state(frame)
            if state.seq is not None:
                self.tracer.settle(frame, state)
            self.tracer.leave(frame)

    def finish(self):
        sys.monitoring.set_events(self.tool, 0)
        sys.monitoring.free_tool_id(self.tool)
        self.tracer.finish()


def start(config, events):
    """Called in every traced process."""
    tracer = LineTracer(config, events)
    tool = _tracing.take_monitoring_id("line_trace")
    events.write({"k": "reach", "file": None, "line": 0})
    (SettraceBackend(tracer) if tool is None else MonitoringBackend(tracer, tool)).start()


# -------------------------------------------------------------------------------------------------------- the outside
def parse_file(text):
    """(real path, first line, last line) of a --file value."""
    path, first, last = re.match(r"(.*?)(?::(\d+)(?:-(\d+))?)?$", text, re.S).groups()
    if not os.path.exists(path):
        raise argparse.ArgumentTypeError("no such file: %s" % path)
    first = int(first) if first else 1
    last = int(last) if last else first if ":" in text[len(path) :] else 1 << 30
    if last < first:
        raise argparse.ArgumentTypeError("%s: the range ends before it begins" % text)
    return os.path.realpath(path), first, last


def executable_lines(path):
    """{line: name of the function it is in} of a Python file."""
    import dis

    with open(path, "rb") as file:
        codes = [(compile(file.read(), path, "exec", dont_inherit=True), "<module>")]
    lines = {}
    while codes:
        code, name = codes.pop()
        inner = [const for const in code.co_consts if isinstance(const, type(code))]
        codes.extend((const, (name + "." if name != "<module>" else "") + const.co_name) for const in inner)
        for _, line in dis.findlinestarts(code):
            if line:
                lines.setdefault(line, name)
    return lines


def spans(numbers):
    out = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in out)


def diagnose(spec, root, reached):
    """(lines never reached, sentence about them) for one --file; (None, "") for a folder or when all were reached."""
    path, first, last = spec
    if os.path.isdir(path):
        return None, "" if any(
            file.startswith(os.path.relpath(path, root)) for file in reached
        ) else "nothing below it ran"
    name = os.path.relpath(path, root)
    try:
        lines = executable_lines(path)
    except (SyntaxError, ValueError) as error:
        return None, "cannot be compiled: %s" % error
    inside = {line for line in lines if first <= line <= last}
    ran = reached.get(name, set())
    if not ran:
        return sorted(inside), "%s: never ran: not imported by the command, or imported from another copy" % name
    if not inside:
        near = sorted(lines, key=lambda line: min(abs(line - first), abs(line - last)))[:3]
        return [], "%s:%d-%d: no executable line there; nearest: %s" % (name, first, last, spans(near) or "none")
    missed = inside - ran
    if not missed:
        return [], ""
    near = sorted(ran, key=lambda line: abs(line - min(missed)))[:3]
    entered = {lines.get(line) for line in ran}
    unentered = sorted({lines[line] for line in missed} - entered)
    text = "%s: never reached: %s (nearest reached: %s)" % (name, spans(missed), spans(near))
    return sorted(missed), text + ("; never entered: " + ", ".join(unentered) if unentered else "")


def collect(records, limit):
    """(events with their changes, {file: reached lines}, number of events seen, notes)."""
    events, by_seq, reached, notes = [], {}, collections.defaultdict(set), []
    dropped = seen = 0
    for record in records:
        kind = record.pop("k")
        if kind == "event":
            if len(events) >= limit:
                dropped += 1
                continue
            by_seq[record["pid"], record.pop("seq")] = record
            record.setdefault("vars", {})
            events.append(record)
        elif kind == "vars" and (record["pid"], record["seq"]) in by_seq:
            by_seq[record["pid"], record["seq"]]["vars"] = record["vars"]
        elif kind == "reach" and record["file"] is not None:
            reached[record["file"]].add(record["line"])
        elif kind == "end":
            seen += record["seen"]
            if record["replaced"]:
                text = "process %d: something replaced the tracer (coverage, a debugger); lines may be missing"
                notes.append(text % record["pid"])
    return events, reached, max(seen, len(events) + dropped), notes


def render(event, sources, many):
    where = "%s:%d" % (event["file"], event["line"])
    if event["file"] not in sources:
        try:
            with open(event["file"], encoding="utf-8", errors="replace") as file:
                sources[event["file"]] = file.read().split("\n")
        except OSError:
            sources[event["file"]] = []
    lines = sources[event["file"]]
    text = lines[event["line"] - 1].strip() if event["line"] <= len(lines) else ""
    out = []
    if event.get("before"):
        given = "  ".join("%s=%s" % pair for pair in event["before"].items())
        out.append("%s in %s with %s" % (where, event["func"], given))
    if event["event"] == "line":
        out.append("%s #%d | %s" % (where, event["hit"], text))
        out.extend("        %s = %s" % pair for pair in event["vars"].items())
    else:
        arrow = "returns" if event["event"] == "return" else "raises"
        out.append("%s #%d %s %s %s" % (where, event["hit"], event["func"], arrow, event["value"]))
    if many:
        out = ["[%d.%d] %s" % (event["pid"], event["thread"], line) for line in out]
    return "\n".join(out)


def main(argv):
    own, command = _tracing.split_args(argv)
    parser = argparse.ArgumentParser(prog="line_trace.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--file", action="append", required=True, type=parse_file, metavar="PATH[:FIRST-LAST]")
    parser.add_argument("--hits", type=int, default=3, help="events per line and kind (3)")
    parser.add_argument("--max", type=int, default=2000, help="events in all (2000)")
    parser.add_argument("--show", type=int, default=200, help="events printed (200); --out gets all")
    parser.add_argument("--no-vars", action="store_true", help="lines only: faster")
    parser.add_argument("--test-only", action="store_true", help="only what runs from a test's body")
    parser.add_argument("--out", metavar="F.jsonl")
    options = parser.parse_args(own)
    if not command:
        parser.error("no command: give it after --")
    _tracing.utf8_stdout()
    root = os.path.realpath(".")
    config = {"tool": os.path.abspath(__file__), "root": root, "files": options.file, "hits": options.hits}
    config.update(max=options.max, vars=not options.no_vars, test_only=options.test_only)
    out = _tracing.open_out(options.out)
    rc, records = _tracing.run(config, command)
    report(options, root, rc, records, out)
    return rc


def report(options, root, rc, records, out):
    processes = {record["pid"] for record in records}
    events, reached, seen, notes = collect(records, options.max)
    many = len({(event["pid"], event["thread"]) for event in events}) > 1
    sources = {}
    print("---- line_trace ----")
    for event in events[: options.show]:
        print(render(event, sources, many))
    missing = {}
    for spec in options.file:
        lines, text = diagnose(spec, root, reached)
        if lines:
            missing.setdefault(os.path.relpath(spec[0], root), []).extend(lines)
        if text:
            notes.append(text)
    if not processes:
        notes = ["no Python process was traced: the command starts none, or starts it with -I, -E or -S"]
    for note in notes:
        print(note)
    full = len(events) >= options.max and seen > len(events)
    lines = {(event["file"], event["line"]) for event in events}
    counts = (len(events), len(lines), len(processes), seen, options.hits, rc, min(len(events), options.show))
    text = "total: %d events of %d lines in %d processes (%d seen, at most %d kept per line), exit code %d; %d shown"
    text += "; TRUNCATED at --max %d" % options.max if full else ""
    print(text % counts + ("; the rest: --show N or --out F" if len(events) > options.show else ""))
    if out is not None:
        with out:
            for event in events:
                out.write(json.dumps(event) + "\n")
            totals = {
                "total": len(events),
                "truncated": full,
                "never_reached": missing,
                "notes": notes,
                "exit_code": rc,
            }
            out.write(json.dumps(totals) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
