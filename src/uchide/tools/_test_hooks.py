"""Inside half of run_tests.py: hooks on pytest and unittest that send one event per thing that happens to a pipe.

Events: collecting, collected, refused (a file, module or class fixture that let no test run), start, provisional,
result, end.
"""

import json
import os
import signal
import sys
import time

RANK = ("passed", "xfailed", "skipped", "xpassed", "failed", "error", "timeout", "crashed")
MESSAGE_CHARS = 4000


def shorten(text, limit=MESSAGE_CHARS):
    text = str(text)
    return text if len(text) <= limit else text[: limit // 4] + "\n[...]\n" + text[-(limit - limit // 4) :]


def fold(record, status, phase, message):
    """Worst status wins: subtests, repeated reports and teardown errors end in one status for their test."""
    if record["status"] is None or RANK.index(status) > RANK.index(record["status"]):
        record.update(status=status, phase=phase, message=shorten(message))


def ancestors(test, dotted):
    """The id itself and everything it belongs to: test, class, module, folders."""
    yield test
    base = test if dotted else test.partition("[")[0]
    yield base
    path, _, names = (base, "", "") if dotted else base.partition("::")
    while names:
        names = names.rpartition("::")[0]
        yield path + ("::" + names if names else "")
    separator = "." if dotted else "/"
    while path:
        yield path
        path = path.rpartition(separator)[0]
    yield "."


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


class Channel(object):
    """Events to the driver, one JSON line each, written at once. Silent in forked children."""

    def __init__(self, fd, results_only=False):
        self.fd = out_of_the_way(fd)
        self.pid = os.getpid()
        self.results_only = results_only

    def send(self, kind, **event):
        if os.getpid() == self.pid and (kind == "result" or not self.results_only):
            data = (json.dumps(event if self.results_only else dict(event, k=kind)) + "\n").encode("ascii")
            while data:
                data = data[os.write(self.fd, data) :]


class TestTimeout(BaseException):
    """Not an Exception: `except Exception` in the code under test must not swallow it."""


class TimeLimit(object):
    """SIGALRM for one phase of a test. Leaves a timer that somebody else armed alone: the driver watches too."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.armed = self.fired = False
        self.previous = None

    def _ring(self, _signal, _frame):
        self.fired = True
        raise TestTimeout("over its limit of %g s" % self.seconds)

    def arm(self):
        if self.armed or signal.getitimer(signal.ITIMER_REAL)[0]:
            return
        self.previous = signal.signal(signal.SIGALRM, self._ring)
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def disarm(self):
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.armed = False
            signal.signal(signal.SIGALRM, self.previous or signal.SIG_DFL)


class Recorder(object):
    """The record of the running test, kept back until the next one starts so that a late teardown error counts."""

    def __init__(self, channel, seconds):
        self.channel = channel
        self.limit = TimeLimit(seconds)
        self.record = None

    def start(self, test):
        self.flush()
        self.limit.fired = False
        self.record = {"id": test, "status": None, "phase": "call", "message": "", "duration_s": 0.0}
        self.channel.send("start", id=test)

    def add(self, test, status, phase, message, seconds=0.0):
        if self.record is None or self.record["id"] != test:
            self.start(test)
        if status in ("failed", "error") and self.limit.fired:
            status = "timeout"
        fold(self.record, status, phase, message)
        self.record["duration_s"] = round(self.record["duration_s"] + seconds, 6)

    def settle(self):
        """The test is over, only a fixture of its class or module may still fail."""
        if self.record["status"] is not None:
            self.channel.send("provisional", **self.record)

    def flush(self):
        if self.record is not None and self.record["status"] is not None:
            self.channel.send("result", **self.record)
        self.record = None


def pytest_status(report):
    """Status of one phase report (setup, call, teardown)."""
    if report.failed:
        return "failed" if report.when == "call" else "error"
    expected = hasattr(report, "wasxfail")
    if report.skipped:
        return "xfailed" if expected else "skipped"
    return "xpassed" if expected and report.when == "call" else "passed"


def pytest_message(report):
    longrepr = report.longrepr
    if isinstance(longrepr, tuple):  # skip: (path, line, reason)
        return longrepr[-1]
    crash = getattr(getattr(longrepr, "reprcrash", None), "message", "")
    text = "" if longrepr is None else str(longrepr)
    return crash + "\n" + text if crash else text or str(getattr(report, "wasxfail", ""))


def make_pytest_plugin(channel, asked, seconds):
    import pytest

    wanted = None if asked is None else set(asked)

    class Plugin(object):
        def __init__(self):
            self.recorder = Recorder(channel, seconds)

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config):
            if getattr(config.option, "dist", "no") != "no":  # xdist: its workers would run without this plugin
                config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None

        def pytest_collectstart(self, collector):
            if isinstance(collector, pytest.File):
                channel.send("collecting", id=collector.nodeid)

        def pytest_collectreport(self, report):
            if report.nodeid and report.nodeid != "." and not report.passed:
                status = "error" if report.failed else "skipped"
                channel.send("refused", id=report.nodeid, status=status, message=shorten(pytest_message(report)))

        @pytest.hookimpl(hookwrapper=True)
        def pytest_collection_modifyitems(self, config, items):
            yield
            if wanted is not None:
                kept = [item for item in items if not wanted.isdisjoint(ancestors(item.nodeid, False))]
                chosen = set(kept)
                config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
                items[:] = kept
            channel.send("collected", ids=[item.nodeid for item in items])

        def pytest_runtest_logstart(self, nodeid, location):
            self.recorder.start(nodeid)

        def pytest_runtest_logreport(self, report):
            if report.outcome == "rerun":
                self.recorder.record["status"] = None
            elif report.when == "call" or not report.passed:
                message = "" if report.passed else pytest_message(report)
                self.recorder.add(report.nodeid, pytest_status(report), report.when, message, report.duration)

        @pytest.hookimpl(optionalhook=True)  # pytest 3.4 and newer
        def pytest_runtest_logfinish(self):
            self.recorder.flush()

        def pytest_sessionfinish(self):
            self.recorder.flush()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_setup(self):
            self.recorder.limit.arm()
            yield
            self.recorder.limit.disarm()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self):
            self.recorder.limit.arm()
            yield
            self.recorder.limit.disarm()

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_teardown(self):
            self.recorder.limit.arm()
            yield
            self.recorder.limit.disarm()

    return Plugin()


def exception_text(err):
    kind, value, trace = err
    import traceback

    head = "%s: %s" % (kind.__name__, value)
    return head + "\n" + "".join(traceback.format_exception(kind, value, trace))


def unittest_phase(trace):
    """setup, call or teardown: the first frame that is not unittest's own tells."""
    while trace is not None and "__unittest" in trace.tb_frame.f_globals:
        trace = trace.tb_next
    name = trace.tb_frame.f_code.co_name if trace is not None else ""
    if name.startswith(("setUp", "_pre_setup", "asyncSetUp")):
        return "setup"
    return "teardown" if name.startswith(("tearDown", "_post_teardown", "doCleanups", "asyncTearDown")) else "call"


def is_missing(label):
    """Whether a dotted label names nothing at all, as opposed to something that cannot be imported."""
    import importlib.util

    parts = label.split(".")
    module, known = None, 0
    for n in range(1, len(parts) + 1):
        try:
            if importlib.util.find_spec(".".join(parts[:n])) is None:
                break
        except (ImportError, AttributeError, ValueError):
            break
        except Exception:  # a parent package that fails on import
            return False
        known = n
    if not known:
        return True
    try:
        thing = module = importlib.import_module(".".join(parts[:known]))
    except Exception:
        return False
    for name in parts[known:]:
        if not hasattr(thing, name):
            return True
        thing = getattr(thing, name)
    return thing is not module and False


def flatten(suite):
    import unittest

    for test in suite:
        if isinstance(test, unittest.TestSuite):
            for inner in flatten(test):
                yield inner
        elif test is not None:
            yield test


class UnittestHooks(object):
    """Hooks on unittest's own classes, so every runner built on them (Django's too) reports here."""

    def __init__(self, channel, asked, seconds, collect):
        self.channel = channel
        self.asked = set(asked or ())
        self.recorder = Recorder(channel, seconds)
        self.collect = collect
        self.result = None  # the result object in charge; others belong to tests that run tests
        self.running = None
        self.clock = time.perf_counter
        self.began = 0.0

    def install(self):
        import unittest

        self._wrap(unittest.TestResult, "startTest", self.on_start)
        self._wrap(unittest.TestResult, "stopTest", self.on_stop)
        for name, status in (
            ("addSuccess", "passed"),
            ("addExpectedFailure", "xfailed"),
            ("addUnexpectedSuccess", "failed"),  # as pytest reports it: the suite fails
            ("addSkip", "skipped"),
            ("addFailure", "failed"),
            ("addError", "error"),
        ):
            self._wrap(unittest.TestResult, name, self.on_outcome, status)
        self._wrap(unittest.TestResult, "addSubTest", self.on_subtest)
        self._patch_loader(unittest.TestLoader)
        self._patch_runner(unittest.TextTestRunner, unittest.TestResult)

    def _wrap(self, owner, name, seen, *extra):
        original = getattr(owner, name)

        def method(result, *args, **kwargs):
            if self.running is None or result is self.result:
                seen(*(extra + (result,) + args))
            return original(result, *args, **kwargs)

        setattr(owner, name, method)

    def on_start(self, result, test):
        self.result, self.running = result, test.id()
        self.recorder.start(test.id())
        self.began = self.clock()
        self.recorder.limit.arm()

    def on_stop(self, result, test):
        self.recorder.limit.disarm()
        self.running = None
        if self.recorder.record is not None:
            self.recorder.record["duration_s"] = round(self.clock() - self.began, 6)
            self.recorder.settle()

    def on_outcome(self, status, result, test, detail=None):
        if isinstance(detail, tuple):
            phase, message = unittest_phase(detail[2]), exception_text(detail)
        else:
            phase, message = "call", "Unexpected success" if status == "failed" else detail or ""
        if type(test).__name__ == "_ErrorHolder":
            self.on_fixture(status, test.id(), message)
        else:
            self.recorder.add(getattr(test, "test_case", test).id(), status, phase, message)

    def on_fixture(self, status, description, message):
        """ "setUpClass (pkg.mod.Class)" and its like: no test has run, or the last one of the class has just ended."""
        kind, _, scope = description.partition(" (")
        scope = scope.rstrip(")")
        record = self.recorder.record
        if kind.startswith("tearDown") and record is not None:
            fold(record, status, "teardown", message)
        else:
            self.recorder.flush()
            self.channel.send("refused", id=scope, status=status, phase="setup", message=shorten(message))

    def on_subtest(self, result, test, subtest, err):
        if err is not None:
            status = "failed" if issubclass(err[0], test.failureException) else "error"
            self.recorder.add(test.id(), status, "call", "%s\n%s" % (subtest, exception_text(err)))

    def _patch_loader(self, loader_class):
        original = loader_class.loadTestsFromName

        def load(loader, name, module=None):
            if name not in self.asked:
                return original(loader, name, module)
            self.channel.send("collecting", id=name)
            try:
                suite = original(loader, name, module)
                broken = [test for test in flatten(suite) if type(test).__name__ == "_FailedTest"]
                message = str(broken[0]._exception) if broken else ""
            except Exception:
                suite, broken, message = None, True, exception_text(sys.exc_info())
            if not broken:
                return suite
            if not is_missing(name):
                self.channel.send("refused", id=name, status="error", message=shorten(message))
            return loader.suiteClass([])

        loader_class.loadTestsFromName = load

    def _patch_runner(self, runner_class, result_class):
        original = runner_class.run

        def run(runner, suite):
            if self.running is None:
                self.channel.send("collected", ids=[test.id() for test in flatten(suite)])
                if self.collect:
                    return result_class()
            return original(runner, suite)

        runner_class.run = run


def worker(config_path):
    """Entry of the inside process: become the test command, with the hooks in place."""
    import runpy

    with open(config_path, encoding="ascii") as file:
        config = json.load(file)
    channel = Channel(config["fd"])
    is_module, target, args = config["is_module"], config["target"], config["args"]
    if os.path.realpath(sys.path[0] or ".") == os.path.dirname(os.path.realpath(__file__)):  # not with -P, -I
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(target))
    sys.argv = [target] + args + config["labels"]
    recorder = None
    try:
        if config["runner"] == "pytest":
            import pytest

            rc = pytest.main(sys.argv[1:], plugins=[make_pytest_plugin(channel, config["asked"], config["seconds"])])
        else:
            hooks = UnittestHooks(channel, config["labels"], config["seconds"], config["collect"])
            hooks.install()
            recorder = hooks.recorder
            rc = 0
            if is_module:
                runpy.run_module(target, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(target, run_name="__main__")
    except SystemExit as stop:
        rc = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    if recorder is not None:
        recorder.flush()
    channel.send("end", rc=int(rc or 0))
    sys.stdout.flush()
    sys.exit(int(rc or 0))


if __name__ == "__main__":
    worker(sys.argv[1])
