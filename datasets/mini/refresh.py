"""Write tests.json of every instance from real test runs: `python datasets/mini/refresh.py [ID ...]`.

For maintainers, after a change to a repository, a bug or a hidden test. The tests of Uchide check what it writes.
"""

import sys
from pathlib import Path

from uchide.datasets.mini import MiniDataset, TestLists, write_test_lists
from uchide.datasets.mini_check import run_both


def main(ids: list[str]) -> None:
    dataset = MiniDataset(Path(__file__).parent)
    for instance_id in ids or dataset.ids:
        base, gold = run_both(dataset, instance_id)
        fail_to_pass = tuple(sorted(test for test in gold if gold[test] == "passed" and base.get(test) != "passed"))
        pass_to_pass = tuple(sorted(test for test in gold if gold[test] == "passed" and base.get(test) == "passed"))
        not_passing = sorted(test for test in gold if gold[test] != "passed")
        if not_passing:
            raise SystemExit(f"{instance_id}: do not pass on the gold side: {not_passing}")
        write_test_lists(dataset, instance_id, TestLists(fail_to_pass=fail_to_pass, pass_to_pass=pass_to_pass))
        print(f"{instance_id}: {len(fail_to_pass)} fail to pass, {len(pass_to_pass)} pass to pass")


if __name__ == "__main__":
    main(sys.argv[1:])
