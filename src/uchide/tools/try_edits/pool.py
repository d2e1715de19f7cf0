"""Makes the ordered pool of candidate edits: operators on units, like sites together, penalties, seeded order."""

import heapq
import math
import random
import re
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

from . import ops_bool, ops_expr, ops_flow, ops_logic, ops_moves, ops_raise, ops_text
from .issue import Issue
from .localise import Unit
from .site import Repo, Site
from .source import Change, Edit, Source

Operator = Callable[[Site], Iterator[Edit]]
OPERATORS = (
    ops_logic.truthiness,
    ops_logic.boundaries,
    ops_logic.membership,
    ops_bool.booleans,
    ops_raise.exceptions,
    ops_flow.guards,
    ops_flow.returns,
    ops_flow.like_checks,
    ops_moves.moves,
    ops_expr.names,
    ops_expr.arguments,
    ops_expr.defaults,
    ops_expr.normalise,
    ops_expr.short_values,
    ops_expr.wrapping,
    ops_expr.class_level,
    ops_text.strings,
    ops_text.flag_variables,
)  # type: Tuple[Operator, ...]
UNITS = 60
NOISE = 0.12
SHARED_NOISE = 0.15
PICKS = 1500
SPREAD = 0.7
PRIOR = 0.5
SHARPNESS = 1.5
WEAK = frozenset("names wrapping copies moves normalise lengths boundaries".split())
CRUEL = frozenset(
    "negate negate-part always never flip-bool bool-to-none number sign delete drop other-variable other-value"
    " other-name other-target unwrap near-text issue-text catch-pass catch-all swap dict set drop-branch"
    " one-element exact-type".split()
)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+")
PLAIN = frozenset("None True False 0 1".split())
MAX_LIKE = 8


class Mutant(NamedTuple):
    """One candidate: what changes where, its score in the pool, and `base`, the same without noise and penalties."""

    path: str
    line: int
    family: str
    name: str
    score: float
    changes: Tuple[Change, ...]
    unit: int
    base: float


def build(
    units: Sequence[Unit], issue: Issue, sources: Dict[str, Source], trace: Dict[str, Any], rng: random.Random
) -> List[Mutant]:
    """Candidates, best first. Penalties per unit, per operator family of a unit, and per family keep it broad."""
    repo = Repo(sources, trace)
    raw = {}  # type: Dict[Tuple[str, Tuple[Change, ...]], Mutant]
    groups = {}  # type: Dict[Tuple[Any, ...], List[Mutant]]
    wanted = wanted_tokens(issue)
    for number, unit in enumerate(units[:UNITS]):
        site = Site(unit, issue, repo)
        for operator in OPERATORS:
            for edit in operator(site):
                changes = trim(unit.source.data, edit.changes)
                if not changes:
                    continue
                score = edit.weight * unit.score**SHARPNESS * hint(changes, wanted)
                mutant = Mutant(unit.source.path, unit.line, edit.family, edit.name, score, changes, number, score)
                key = (mutant.path, changes)
                if key not in raw or raw[key].score < score:
                    raw[key] = mutant
                if len(changes) == 1:
                    _group(groups, site, mutant)
    for key, mutant in _together(groups):
        if key not in raw or raw[key].score < mutant.score:
            raw[key] = mutant
    return penalise(noisy(list(raw.values()), rng))


def noisy(mutants: List[Mutant], rng: random.Random) -> List[Mutant]:
    """Scores as this seed sees them: some statements and some kinds of edits please it more than others do."""
    taste = {}  # type: Dict[Any, float]
    made = []
    for mutant in mutants:
        for key in (mutant.unit, mutant.family):
            if key not in taste:
                taste[key] = rng.gauss(0.0, SHARED_NOISE)
        exponent = taste[mutant.unit] + taste[mutant.family] + rng.gauss(0.0, NOISE)
        made.append(mutant._replace(score=mutant.score * trust(mutant) ** PRIOR * math.exp(exponent)))
    return made


def trust(mutant: Mutant) -> float:
    """How often an edit of this kind, once it works, is a repair and not a trick: cruel edits are trusted least."""
    name = mutant.name[:-4] if mutant.name.endswith("-all") else mutant.name
    if name in CRUEL:
        return 0.25
    return 0.5 if mutant.family in WEAK else 1.0


def wanted_tokens(issue: Issue) -> Set[str]:
    """Words and numbers that only the expected output holds."""
    return set(TOKEN.findall(issue.expected)) - set(TOKEN.findall(issue.observed))


def hint(changes: Sequence[Change], wanted: Set[str]) -> float:
    """More than 1 if the new text speaks of what the output lacks."""
    tokens = {token for _, _, new in changes for token in TOKEN.findall(new.decode("utf-8"))}
    if tokens & wanted:
        return 1.7 if tokens & wanted - PLAIN else 1.2
    if wanted & {"True", "False"} and tokens & {"bool", "isinstance", "any", "all"}:
        return 1.5
    return 1.0


def trim(data: bytes, changes: Sequence[Change]) -> Tuple[Change, ...]:
    """The changes cut down to what really differs."""
    made = []
    for start, end, new in changes:
        old = data[start:end]
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        if len(old) != len(new) or head < len(old):
            made.append((start + head, end - tail, new[head : len(new) - tail]))
    return tuple(sorted(made))


def _group(groups: Dict[Tuple[Any, ...], List[Mutant]], site: Site, mutant: Mutant) -> None:
    start, end, new = mutant.changes[0]
    old = site.source.data[start:end]
    scope = site.function or site.klass
    for key in ((mutant.path, id(scope), old, new, mutant.name), (mutant.path, "file", old, new, mutant.name)):
        groups.setdefault(key, []).append(mutant)


def _together(groups: Dict[Tuple[Any, ...], List[Mutant]]) -> Iterator[Tuple[Tuple[str, Tuple[Change, ...]], Mutant]]:
    """The same change at all its sites."""
    for members in groups.values():
        changes = tuple(sorted({m.changes[0] for m in members}))
        units = {m.unit for m in members}
        if not 2 <= len(changes) <= MAX_LIKE or len(units) < 2:
            continue
        if any(a[1] > b[0] for a, b in zip(changes, changes[1:])):
            continue
        best = max(members, key=lambda m: m.score)
        yield (
            (best.path, changes),
            best._replace(name=best.name + "-all", score=0.8 * best.score, changes=changes, base=0.8 * best.base),
        )


def penalise(mutants: List[Mutant]) -> List[Mutant]:
    """Best first, where each one taken pushes back those of the same statement and of the same kind."""
    sizes = Counter((mutant.unit, mutant.family, mutant.name) for mutant in mutants)
    counts = Counter()  # type: Counter
    heap = [(order(mutant), number, mutant) for number, mutant in enumerate(mutants)]
    heapq.heapify(heap)
    made = []  # type: List[Mutant]
    while heap and len(made) < PICKS:
        _, number, mutant = heapq.heappop(heap)
        shared = scales(mutant, sizes[(mutant.unit, mutant.family, mutant.name)])
        factor = 1.0
        for key, scale in shared:
            factor *= 1.0 + counts[key] / scale
        now = (order(mutant._replace(score=mutant.score / factor**SPREAD)), number, mutant)
        if heap and now[0] > heap[0][0]:
            heapq.heappush(heap, now)
            continue
        made.append(mutant._replace(score=-now[0][0]))
        counts.update(key for key, _ in shared)
    return made + [mutant for _, _, mutant in sorted(heap)]


def scales(mutant: Mutant, size: int) -> Tuple[Tuple[Any, float], ...]:
    """What a candidate shares with others, and how many of those count double; few variants are tried out sooner."""
    return (
        (mutant.unit, 10.0),
        ((mutant.unit, mutant.family), 6.0),
        ((mutant.unit, mutant.family, mutant.name), max(1.5, 12.0 / size)),
        (mutant.family, 40.0),
        ((mutant.family, mutant.name), 20.0),
    )


def order(mutant: Mutant) -> Tuple[Any, ...]:
    return (-mutant.score, mutant.path, mutant.changes)
