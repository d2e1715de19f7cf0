"""Chooses which existing tests one run checks: related files, then a seeded sample of ids."""

import json
import math
import os
import random
import re
import subprocess
from typing import Dict, List, Optional, Sequence, Set, Tuple

from .check import collect
from .issue import Issue, split_words
from .localise import Unit

TEST_FILE = re.compile(r"^(test_.*|.*_test|tests?)\.py$")
SKIP = {".git", "node_modules", ".venv", "venv", "build", "dist", "__pycache__", ".tox", ".eggs"}
MAX_FILES = 4
MAX_BYTES = 400000
SHARE = 0.2
LEAST = 10
MOST = 60


def runner_kind() -> str:
    return str(json.loads(os.environ.get("UCHIDE_RUNNER", "{}")).get("runner", "pytest"))


def test_targets(root: str, units: Sequence[Unit], issue: Issue) -> List[str]:
    """Test files (labels of test packages for Django), most related first."""
    django = runner_kind() == "django"
    known = in_head(root)
    texts = {}  # type: Dict[str, str]
    for folder, folders, files in os.walk(os.path.join(root, "tests") if django else root):
        folders[:] = sorted(f for f in folders if f not in SKIP)
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), root)
            if not (TEST_FILE.match(name) or (django and re.match(r"tests?.*\.py$", name))):
                continue
            if known is not None and path.replace(os.sep, "/") not in known:
                continue
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text = file.read(MAX_BYTES)
            if "def test" in text:
                texts[path] = text
    if django:
        texts = _by_package(texts)
    modules = _modules(units)
    words = {w for w in issue.words if len(w) > 3}
    found = _document_counts(texts, modules, issue.identifiers, words)
    total = len(texts) + 1.0
    scored = []
    for path, text in texts.items():
        title = set(split_words(path))
        score = 0.0
        for term, weight in _terms(modules, issue.identifiers, words):
            if term in found[path]:
                count = sum(1 for other in found.values() if term in other)
                score += weight * math.log(total / count + 0.5)
        for module, weight in modules.items():
            if set(split_words(module)) & title:
                score += 3.0 * weight
        score += 0.7 * len(title & words)
        scored.append((-score, len(text), path))
    return [path for _, _, path in sorted(scored)]


def in_head(root: str) -> Optional[Set[str]]:
    """Files of the last commit; None outside a repository with one."""
    command = ["git", "ls-tree", "-r", "-z", "--name-only", "HEAD"]
    try:
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return None
    return set(done.stdout.decode("utf-8", "replace").split("\0")) if done.returncode == 0 else None


def _by_package(texts: Dict[str, str]) -> Dict[str, str]:
    made = {}  # type: Dict[str, str]
    for path, text in sorted(texts.items()):
        parts = path.split(os.sep)
        if len(parts) > 2:
            made[parts[1]] = (made.get(parts[1], "") + text)[:MAX_BYTES]
    return made


def _modules(units: Sequence[Unit]) -> Dict[str, float]:
    """Module names of the best units with a weight that falls along the ranking."""
    made = {}  # type: Dict[str, float]
    for number, unit in enumerate(units[:40]):
        path = unit.source.path
        stem = os.path.basename(path)[:-3]
        if stem == "__init__":
            stem = os.path.basename(os.path.dirname(path)) or stem
        made[stem.strip("_")] = max(made.get(stem.strip("_"), 0.0), 1.0 / (1.0 + number / 8.0))
    return made


def _terms(modules: Dict[str, float], identifiers: Set[str], words: Set[str]) -> List[Tuple[str, float]]:
    made = [(name, 1.5 * weight) for name, weight in sorted(modules.items())]
    made += [(name, 1.0) for name in sorted(identifiers) if len(name) > 3]
    return made + [(word, 0.3) for word in sorted(words)]


def _document_counts(
    texts: Dict[str, str], modules: Dict[str, float], identifiers: Set[str], words: Set[str]
) -> Dict[str, Set[str]]:
    terms = {term for term, _ in _terms(modules, identifiers, words)}
    return {path: terms & set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)) for path, text in texts.items()}


def choose_ids(root: str, units: Sequence[Unit], issue: Issue, seed: int) -> Tuple[List[str], List[str]]:
    """Targets and chosen ids: a fifth of the ids of related files, at least ten; related names are likelier."""
    rng = random.Random("tests %d" % seed)
    targets = test_targets(root, units, issue)[: 2 if runner_kind() == "django" else MAX_FILES]
    ids = collect(root, targets) if targets else []
    count = min(len(ids), MOST, max(LEAST, int(math.ceil(SHARE * len(ids)))))
    weighted = []
    for name in ids:
        shared = set(split_words(name)) & set(issue.words)
        weight = 1.0 + sum(issue.words[w] for w in shared)
        weighted.append((rng.random() ** (1.0 / weight), name))
    kept = {name for _, name in sorted(weighted, reverse=True)[:count]}
    return targets, [name for name in ids if name in kept]
