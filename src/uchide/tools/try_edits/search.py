"""The search: run candidates in order until the budget is spent, pair partial successes, check, pick survivors."""

import ast
import difflib
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import localise, peers, pool
from .check import ToolError, run_tests
from .forks import Forks, Outcome, clean, same_output
from .issue import build
from .pool import Mutant
from .site import Repo
from .source import Change, Source

HERE = os.path.dirname(os.path.abspath(__file__))
CPU_FLOOR_S = 0.5
SCRIPT_S = 120
PEER_BONUS = 2.0


class Limits(NamedTuple):
    """Budgets, all counted, none timed: the same seed gives the same search on any machine."""

    mutants: int = 360
    plausible: int = 14
    checks: int = 8
    survivors: int = 4
    pair_share: float = 0.3


class Plan(NamedTuple):
    """A combination of edits that is tried as one candidate."""

    parts: Tuple[Mutant, ...]

    @property
    def score(self) -> float:
        return sum(part.score for part in self.parts) / len(self.parts) ** 2

    @property
    def worth(self) -> float:
        """How much a working candidate is believed: mostly what kind of edit it is, a little where it stands."""
        alike = len({part.name for part in self.parts}) == 1
        believed = min(pool.trust(part) for part in self.parts) * max(part.base for part in self.parts) ** 0.5
        return believed if alike else 0.5 * believed

    @property
    def label(self) -> str:
        return " + ".join("%s/%s %s:%d" % (p.family, p.name, p.path, p.line) for p in self.parts)

    def changes(self) -> Dict[str, List[Change]]:
        made = {}  # type: Dict[str, List[Change]]
        for part in self.parts:
            made.setdefault(part.path, []).extend(part.changes)
        return made


def trace(root: str, script: str) -> Dict[str, Any]:
    """What the reproduction ran. Raises ToolError when it does not end."""
    with tempfile.TemporaryDirectory(prefix="try_edits") as scratch:
        out = os.path.join(scratch, "trace.json")
        _python([os.path.join(HERE, "trace.py"), os.path.abspath(script), root, out], root)
        if not os.path.exists(out):
            raise ToolError("the reproduction %s ended before its trace could be written" % script)
        with open(out, encoding="utf-8") as file:
            return dict(json.load(file))


def run_script(root: str, script: str) -> Tuple[Outcome, float]:
    """The reproduction as it is: its outcome and CPU seconds. Raises ToolError when it does not end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _python([os.path.abspath(script)], root)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")), cpu


def _python(argv: Sequence[str], root: str) -> "subprocess.CompletedProcess[bytes]":
    pipe = subprocess.PIPE
    command = [sys.executable] + list(argv)
    try:
        return subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=SCRIPT_S)
    except subprocess.TimeoutExpired:
        raise ToolError("the reproduction did not end within %d seconds" % SCRIPT_S) from None


class Search:
    """One seeded search over one tree."""

    def __init__(
        self, root: str, script: str, record: Dict[str, Any], expected: str, seed: int, limits: Limits
    ) -> None:
        self.root = os.path.realpath(root)
        self.script = os.path.abspath(script)
        self.expected = expected
        self.rng = random.Random("search %d" % seed)
        self.baseline, cpu = run_script(self.root, self.script)
        self.cpu_limit = max(CPU_FLOOR_S, 5 * cpu)
        self.trace = trace(self.root, self.script)
        self.issue = build(record, expected, self.baseline.out + last_line(self.baseline.err))
        self.sources = localise.read_sources(self.root, self.trace)
        self.units = localise.rank(self.sources, self.trace, self.issue)
        sizes = [len(unit.source.data) for unit in self.units[:30]] or [0]
        self.limits = limits._replace(mutants=scaled(limits.mutants, self.trace["events"], sum(sizes) // len(sizes)))
        self.plausible = []  # type: List[Plan]
        self.partial = []  # type: List[Tuple[float, Plan, Set[int]]]
        self.tried = 0
        self.seen = set()  # type: Set[Any]
        self.base_progress = self.progress(self.baseline)

    def progress(self, outcome: Outcome) -> Tuple[float, Set[int]]:
        """How near an output is to the expected one, and which expected lines it has at their place."""
        got, want = clean(outcome.out), clean(self.expected)
        lines = {i for i, line in enumerate(want) if i < len(got) and got[i] == line and line}
        tokens = [re.findall(r"\w+|\S", text) for text in (outcome.out[:4000], self.expected[:4000])]
        ratio = difflib.SequenceMatcher(None, tokens[0], tokens[1], autojunk=False).ratio()
        return len(lines) + ratio, lines

    def data(self, plan: Plan) -> Optional[Dict[str, bytes]]:
        made = {}
        for path, changes in plan.changes().items():
            data = self.sources[path].apply(changes)
            if data is None:
                return None
            made[path] = data
        return made

    def run(self) -> None:
        """Fill `plausible` with candidates that print the expected output."""
        mutants = pool.build(self.units, self.issue, self.sources, self.trace, self.rng)
        self.pool_size = len(mutants)
        order = list(self.trace["lines"])
        first = int(self.limits.mutants * (1.0 - self.limits.pair_share))
        with Forks(self.root, self.script, order, self.trace["modules"], self.cpu_limit) as forks:
            self.forks = forks
            for mutant in mutants[: self.limits.mutants]:
                if self.tried >= first and self.partial and not self.plausible:
                    break
                if self._enough() or not self._try(Plan((mutant,))):
                    break
            if len(self.plausible) < 3:
                for plan in self._pairs(mutants):
                    if not self._try(plan):
                        break
            self._carry_over()

    def _enough(self) -> bool:
        """Half the budget is spent and there is a choice between working edits at several statements."""
        places = {plan.parts[0].unit for plan in self.plausible}
        return 2 * self.tried >= self.limits.mutants and len(self.plausible) >= 6 and len(places) >= 3

    def _carry_over(self) -> None:
        """Every single edit that works, done at its peers as well."""
        for plan in list(self.plausible):
            mutant = plan.parts[0]
            near = peers.neighbours(self.root, mutant.path, self.sources)
            unit = self.units[mutant.unit]
            if len(plan.parts) > 1:
                continue
            more = peers.carry_over(mutant, unit, near, self.issue, self.trace)
            more = more or peers.like_sites(mutant, unit, self.issue, Repo(near, self.trace))
            if more:
                self.sources.update({m.path: near[m.path] for m in more})
                data = self.data(Plan((mutant, *more)))
                outcome = self.forks.run(data) if data else None
                if outcome is not None and outcome.rc == 0 and same_output(outcome.out, self.expected):
                    boosted = [
                        part._replace(base=mutant.base * PEER_BONUS ** (1 + len(more))) for part in (mutant, *more)
                    ]
                    self.plausible.append(Plan(tuple(boosted)))

    def _try(self, plan: Plan) -> bool:
        """Run one candidate; False when the search is over."""
        if self.tried >= self.limits.mutants or len(self.plausible) >= self.limits.plausible:
            return False
        data = self.data(plan)
        key = tuple(sorted(data.items())) if data else None
        if data is None or key in self.seen:
            return True
        self.seen.add(key)
        self.tried += 1
        outcome = self.forks.run(data)
        if outcome is None:
            return True
        if outcome.rc == 0 and same_output(outcome.out, self.expected):
            self.plausible.append(plan)
        elif outcome.rc in (0, self.baseline.rc):
            score, lines = self.progress(outcome)
            base, base_lines = self.base_progress
            if len(plan.parts) < 3 and score > base + 0.04 and lines >= base_lines:
                self.partial.append((score, plan, lines))
        return True

    def _pairs(self, mutants: Sequence[Mutant]) -> List[Plan]:
        """Partial successes with one another, then with the best of the pool."""
        best = sorted(self.partial, key=lambda item: (-item[0], -item[1].score))[:12]
        plans = []
        for index, (_, plan, lines) in enumerate(best):
            for _, other, other_lines in best[index + 1 :]:
                if lines - other_lines or other_lines - lines or not lines:
                    plans.append(Plan(plan.parts + other.parts))
        singles = []
        for _, plan, _ in best[:3]:
            singles.append([Plan(plan.parts + (mutant,)) for mutant in mutants[:200]])
        for row in zip(*singles):
            plans.extend(row)
        return plans

    def check(self, ids: Sequence[str]) -> List[Dict[str, Any]]:
        """Candidates that print the expected output, with what they pass of the given tests; survivors first."""
        rows = []  # type: List[Dict[str, Any]]
        survivors = checked = 0
        shapes = set()  # type: Set[str]
        for plan in sorted(self.plausible, key=lambda p: -p.worth * self.rng.uniform(0.7, 1.3)):
            data = self.data(plan)
            shape = "".join(ast.dump(ast.parse(text)) for _, text in sorted(data.items()))
            if shape in shapes:
                continue
            shapes.add(shape)
            row = {"label": plan.label, "score": round(plan.worth, 4), "edits": line_edits(self.sources, data)}
            row.update({"checked": False, "failed": [], "plan": plan})
            if checked < self.limits.checks and survivors < self.limits.survivors:
                failed = run_tests(self.root, ids, data).failed if ids else []
                row.update({"checked": True, "failed": failed[:10]})
                checked += 1
                survivors += not failed
            rows.append(row)
        return rows

    def pick(self, rows: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """The survivors in the order in which to propose them: seeded draws in proportion to belief."""
        alive = [row for row in rows if row["checked"] and not row["failed"]]
        drawn = []
        while alive:
            weights = [row["score"] + 1e-9 for row in alive]
            drawn.append(alive.pop(self.rng.choices(range(len(alive)), weights)[0]))
        return drawn


def scaled(mutants: int, events: int, size: int) -> int:
    """Fewer candidates where one costs more, judged by traced events and bytes to compile: the same on any machine."""
    return max(20, int(mutants / (1.0 + events / 50000.0 + size / 150000.0)))


def last_line(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n" + lines[-1] if lines else ""


def line_edits(sources: Dict[str, Source], data: Dict[str, bytes]) -> List[Dict[str, Any]]:
    """The change of each file as guarded line edits; line numbers are those of the unchanged file."""
    edits = []  # type: List[Dict[str, Any]]
    for path, new in sorted(data.items()):
        old_lines = _lines(sources[path].data)
        new_lines = _lines(new)
        matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            text = "\n".join(new_lines[j1:j2])
            if tag == "insert":
                at, op = (i1, "insert_before") if i1 < len(old_lines) else (i1 - 1, "insert_after")
                edits.append({"path": path, "line": at + 1, "expect": old_lines[at], "new": text, "op": op})
            elif tag in ("replace", "delete"):
                first = {"path": path, "line": i1 + 1, "expect": old_lines[i1], "op": "replace", "new": text}
                if tag == "delete":
                    first = {"path": path, "line": i1 + 1, "expect": old_lines[i1], "op": "delete"}
                edits.append(first)
                for at in range(i1 + 1, i2):
                    edits.append({"path": path, "line": at + 1, "expect": old_lines[at], "op": "delete"})
    return edits


def _lines(data: bytes) -> List[str]:
    text = data.decode("utf-8").replace("\r\n", "\n")
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")
