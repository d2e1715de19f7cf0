"""One worker process of run_tests.py: starting it, reading its events, its time limits, its end."""

import collections
import json
import os
import select
import signal
import subprocess
import sys
import time

import _test_hooks
from _test_hooks import shorten

Plan = collections.namedtuple("Plan", "runner argv seconds start_seconds collect")


def split_command(argv):
    """(interpreter with its options, "-m" or None, module or script, the rest) of a test command."""
    if not os.path.basename(argv[0]).startswith(("python", "pypy")):
        pytest_like = os.path.basename(argv[0]) in ("pytest", "py.test")
        return [sys.executable], "-m" if pytest_like else None, "pytest" if pytest_like else argv[0], argv[1:]
    i = 1
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "-m":
        i += 2 if argv[i] in ("-W", "-X") else 1
    is_module = i < len(argv) and argv[i] == "-m"
    i += is_module
    if i >= len(argv):
        raise ValueError("no module or script in %r" % (argv,))
    return argv[: i - is_module], "-m" if is_module else None, argv[i], argv[i + 1 :]


class Run(object):
    """One worker process: its events, its time limits, its end."""

    def __init__(self, plan, asked, ignored, folder):
        self.plan = plan
        self.collected = None
        self.refused = []
        self.current = self.collecting = self.provisional = None
        self.since = time.monotonic()
        self.ended = self.timed_out = False
        self.rc = None
        self.console = collections.deque(maxlen=64)
        self.finished = 0
        self.command, self.config = self._command(asked, ignored)
        self.folder = folder

    def _command(self, asked, ignored):
        plan = self.plan
        head, is_module, target, args = split_command(plan.argv)
        labels = list(asked or [])
        if plan.runner == "pytest":
            labels = list(collections.OrderedDict.fromkeys(test.partition("::")[0] for test in labels))
            args += ["--continue-on-collection-errors"] + ["--ignore=" + path for path in ignored]
            args += ["--collect-only"] if plan.collect else []
        elif plan.runner == "django":
            args += ["--parallel=1"]
        config = {"runner": plan.runner, "is_module": bool(is_module), "target": target, "args": args}
        config.update(labels=labels, asked=asked, seconds=plan.seconds, collect=plan.collect)
        return head + [_test_hooks.__file__], config

    def execute(self, on_event):
        events, inside = os.pipe()
        path = os.path.join(self.folder, "worker.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(dict(self.config, fd=inside), file)
        process = subprocess.Popen(
            self.command + [path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            pass_fds=[inside], start_new_session=True,
        )  # fmt: skip
        os.close(inside)
        try:
            self._watch(process, events, on_event)
        finally:
            for kill in (lambda: os.killpg(process.pid, signal.SIGKILL), process.kill):
                try:
                    kill()
                except OSError:
                    pass
            self.rc = process.wait()
            process.stdout.close()
            os.close(events)

    def _watch(self, process, events, on_event):
        rest, console = b"", process.stdout.fileno()
        open_fds = [events, console]
        dead_at = None
        while True:
            alive = process.poll() is None
            ready = select.select(open_fds, [], [], 0.1 if alive else 0)[0]
            if console in ready:
                chunk = os.read(console, 4096)
                self.console.append(chunk)
                if not chunk:
                    open_fds.remove(console)
            if events in ready:
                chunk = os.read(events, 1 << 16)
                if not chunk:
                    open_fds.remove(events)
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    on_event(self, json.loads(line.decode("ascii")))
                    self.since = time.monotonic()
            dead_at = None if alive else dead_at or time.monotonic()
            if dead_at and console in open_fds and time.monotonic() - dead_at > 2:  # a grandchild may go on printing
                open_fds.remove(console)
            elif not alive and not ready:
                return
            if alive and time.monotonic() - self.since > self._patience():
                self.timed_out = not self.ended
                return

    def _patience(self):
        if self.ended:
            return 5.0
        seconds = self.plan.seconds
        return self.plan.start_seconds if self.current is None else seconds + min(10.0, max(1.0, seconds / 4))

    def tail(self):
        return shorten(b"".join(self.console).decode("utf-8", "replace")[-2000:].strip())

    def died_as(self):
        """Status and reason for what was under way when the worker ended."""
        if self.timed_out:
            return "timeout", "killed: over its limit of %g s" % (
                self.plan.seconds if self.current else self.plan.start_seconds
            )
        how = "signal %d" % -self.rc if self.rc < 0 else "exit code %d" % self.rc
        return "crashed", "the test process ended with %s\n%s" % (how, self.tail())
