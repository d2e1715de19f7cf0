"""Command line: `reproduce` runs the snippet, `localise` ranks places, `choose` picks tests, `search` repairs."""

import argparse
import json
import os
import resource
import sys
from typing import Any, Dict, List, Tuple

from . import choose, issue, localise
from .check import ToolError
from .forks import same_output
from .search import Limits, Search, run_script, trace


def main(argv: List[str]) -> int:
    """Exit 0 done, 1 nothing found (does not reproduce, no survivor), 2 usage or a failing tool."""
    parser = argparse.ArgumentParser(prog="try_edits", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("reproduce", "localise", "choose", "search"):
        command = commands.add_parser(name)
        command.add_argument("--root", default=".")
        command.add_argument("--issue", required=True, help="issue.json")
        command.add_argument("--repro", required=True, help="reproduction script")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--out", required=True)
        if name == "reproduce":
            command.add_argument("--expected-out", required=True, help="where the expected output is written")
        if name == "search":
            command.add_argument("--expected", required=True, help="file with the expected output")
            command.add_argument("--tests", help="file of existing test ids to check survivors with")
            command.add_argument("--mutants", type=int, default=Limits().mutants)
    options = parser.parse_args(argv)
    handlers = {"choose": _choose, "localise": _localise, "search": _search, "reproduce": _reproduce}
    try:
        return handlers[options.command](options)
    except (ToolError, OSError, ValueError) as exc:
        sys.stderr.write("try_edits %s: %s\n" % (options.command, exc))
        return 2


def _reproduce(options: argparse.Namespace) -> int:
    from .snippet import find

    found = find(issue.load(options.issue))
    if found is None:
        print("The issue holds no code that prints something and says what it should print.")
        return 1
    script, expected = found
    for path, text in ((options.repro, script), (options.expected_out, expected)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    outcome, _ = run_script(options.root, options.repro)
    reproduced = not (outcome.rc == 0 and same_output(outcome.out, expected))
    report = {"reproduced": reproduced, "rc": outcome.rc, "out": outcome.out, "err": outcome.err[-2000:]}
    _write(options.out, report)
    print("exit status %d\n--- printed\n%s--- expected\n%s" % (outcome.rc, outcome.out, expected))
    print("The issue is reproduced." if reproduced else "The output is as expected: the issue does not reproduce.")
    return 0 if reproduced else 1


def _rank(options: argparse.Namespace) -> "Tuple[List[localise.Unit], issue.Issue]":
    ran = trace(options.root, options.repro)
    built = issue.build(issue.load(options.issue))
    return localise.rank(localise.read_sources(options.root, ran), ran, built), built


def _localise(options: argparse.Namespace) -> int:
    places = _places(_rank(options)[0])
    _write(options.out, places)
    for place in places:
        print("%(path)s:%(line)d  %(score).3f  %(text)s" % place)
    return 0 if places else 1


def _places(units: "List[localise.Unit]") -> List[Dict[str, Any]]:
    return [
        {"path": u.source.path, "line": u.line, "score": round(u.score, 3), "text": u.source.text(u.focus)[:120]}
        for u in units[:20]
    ]


def _choose(options: argparse.Namespace) -> int:
    units, built = _rank(options)
    targets, ids = choose.choose_ids(os.path.realpath(options.root), units, built, options.seed)
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("".join(name + "\n" for name in ids))
    print("%d ids chosen from %s" % (len(ids), ", ".join(targets) or "no test file"))
    return 0 if ids else 1


def _search(options: argparse.Namespace) -> int:
    with open(options.expected, encoding="utf-8") as file:
        expected = file.read()
    ids = []  # type: List[str]
    if options.tests:
        with open(options.tests, encoding="utf-8") as file:
            ids = [line.rstrip("\n") for line in file if line.strip()]
    limits = Limits(mutants=options.mutants)
    search = Search(options.root, options.repro, issue.load(options.issue), expected, options.seed, limits)
    search.run()
    rows = search.check(ids)
    drawn = search.pick(rows)
    report = {"schema": 1, "seed": options.seed, "pool": search.pool_size, "tried": search.tried}  # type: Dict[str, Any]
    report["places"] = _places(search.units)
    report["survivors"] = [_public(row) for row in drawn]
    report["rejected"] = [_public(row) for row in rows if row not in drawn]
    report["partial"] = [plan.label for _, plan, _ in search.partial[:20]]
    _write(options.out, report)
    print("%d candidates tried of %d; %d print the expected output; %d also pass the %d chosen tests" % (
        search.tried, search.pool_size, len(search.plausible), len(drawn), len(ids)))  # fmt: skip
    for number, row in enumerate(drawn[:5], 1):
        print("%d. %s" % (number, row["label"]))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("cpu seconds: %.1f" % sum(u.ru_utime + u.ru_stime for u in used))
    return 0 if drawn else 1


def _public(row: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in row.items() if key != "plan"}


def _write(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")
