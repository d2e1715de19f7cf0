"""Which tests a fix turns green, and which have to stay green: measured, with what is not stable left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GOLD_RUNS = 3
PLACES = ("/testbed", "/env/")
"""Paths of the work tree and the environment in a sandbox."""


@dataclass(frozen=True)
class Measured:
    """Sorted test ids."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]


def compare(before: Mapping[str, str], after: Sequence[Mapping[str, str]]) -> Measured:
    """The two lists from statuses per id: of one run on the base tree and of several with the fix, all at one path.

    A test counts when it passed in every run with the fix; an unexpected pass of a test marked as failing does not
    count. Ids that hold the path of the work tree or the environment are dropped: elsewhere they would be others.
    """
    stable = set.intersection(*({test for test, status in run.items() if status == "passed"} for run in after))
    kept = sorted(test for test in stable if not any(place in test for place in PLACES))
    return Measured(
        fail_to_pass=tuple(test for test in kept if before.get(test) != "passed"),
        pass_to_pass=tuple(test for test in kept if before.get(test) == "passed"),
    )
