"""Results of a test run as lines of JSON, read without trust: a test that ran may have written some of them."""

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import get_args

from uchide.records import TestStatus

STATUSES: tuple[TestStatus, ...] = get_args(TestStatus)
BADNESS: tuple[TestStatus, ...] = (
    "passed", "xfailed", "xpassed", "skipped", "not_found", "failed", "error", "crashed", "timeout",
)  # fmt: skip
MESSAGE_CHARS = 2000
LINE_BYTES = 1_000_000


@dataclass(frozen=True)
class TestResult:
    """What happened to one test. Durations in seconds.

    `phase` is collect, setup, call or teardown; empty when the runner did not get to the test.
    """

    __test__ = False

    status: TestStatus
    phase: str = "call"
    message: str = ""
    duration_s: float = 0.0

    @property
    def ran(self) -> bool:
        """Whether the body of the test was reached (as far as this result tells)."""
        return self.status not in ("not_found", "crashed") and self.phase not in ("", "collect")


@dataclass(frozen=True)
class Parsed:
    """`complete` means that the runner itself said that it had finished, after everything else."""

    results: dict[str, TestResult]
    complete: bool


def parse(data: bytes, asked: Collection[str]) -> Parsed:
    """The results of the asked tests in `data`; every other line is ignored.

    An asked class or file stands for the tests in it: their own ids appear. Of several lines for one test the worst
    wins, so that a forged `passed` cannot hide a failure that was reported too.
    """
    wanted = set(asked)
    results: dict[str, TestResult] = {}
    complete = False
    for line in data.split(b"\n"):
        entry = _object(line)
        if entry is None:
            complete = complete and not line.strip()
            continue
        complete = isinstance(entry.get("end"), int) and "id" not in entry
        test = entry.get("id")
        result = _result(entry)
        if result is None or not isinstance(test, str) or wanted.isdisjoint(holders(test)):
            continue
        known = results.get(test)
        if known is None or BADNESS.index(result.status) > BADNESS.index(known.status):
            results[test] = result
    return Parsed(results, complete)


def holders(test: str) -> list[str]:
    """The id itself and everything that holds it: the test without parameters, its class, file and folders."""
    base = test.partition("[")[0]
    found = [test, base]
    path, colons, names = base.partition("::")
    while names:
        names = names.rpartition("::")[0]
        found.append(f"{path}::{names}" if names else path)
    separator = "/" if colons or "/" in path else "."
    while separator in path:
        path = path.rpartition(separator)[0]
        found.append(path)
    return found


def expand(ids: Iterable[str], found: Iterable[str]) -> dict[str, list[str]]:
    """Per asked id the tests it stands for: itself when found, else the found tests in it, else itself."""
    known = dict.fromkeys(found)
    inside: dict[str, list[str]] = {}
    for test in known:
        for holder in dict.fromkeys(holders(test)):
            inside.setdefault(holder, []).append(test)
    return {test: [test] if test in known else inside.get(test, [test]) for test in ids}


def _object(line: bytes) -> dict[str, object] | None:
    if not line.strip() or len(line) > LINE_BYTES:
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _result(entry: dict[str, object]) -> TestResult | None:
    status, phase, message, seconds = (entry.get(key) for key in ("status", "phase", "message", "duration_s"))
    if not isinstance(status, str) or status not in STATUSES:
        return None
    known = next(name for name in STATUSES if name == status)
    return TestResult(
        status=known,
        phase=phase if isinstance(phase, str) else "call",
        message=message[:MESSAGE_CHARS] if isinstance(message, str) else "",
        duration_s=_seconds(seconds),
    )


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        seconds = float(value)
    except OverflowError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds >= 0 else 0.0
