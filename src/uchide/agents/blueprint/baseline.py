"""The regression tests: which existing tests are watched, and that they pass before anything is changed."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from uchide.agents.blueprint import runs
from uchide.agents.blueprint.state import PASSING, AgentState
from uchide.agents.blueprint.work import Work
from uchide.patches.git import ROOT
from uchide.protocols import Command
from uchide.testing.paths import is_test_file

MAX_FILES = 200
_BATCH = 20
_WORD = re.compile(r"[a-z0-9]+")
_LIST = 'git -c safe.directory=* -c core.quotepath=false ls-tree -r -z --name-only "$1"'


async def measure(work: Work, state: AgentState, gathered: Iterable[str]) -> dict[str, object]:
    """The state's fields about regression tests. The work tree must be the base tree with no more than new tests.

    Without the dataset's list the candidates are the existing tests, those of files related to the gathered ones first
    (`related`), up to `tests.regression`; of all candidates those are watched that pass now.
    """
    listed = work.session.task.regression if work.spec.dataset_p2p else None
    if listed is None:
        ids = await _existing(work, state, tuple(gathered))
    else:
        ids = list(dict.fromkeys(listed))
    results = await runs.together(work, ids) if ids else {}
    passing = tuple(test for test, result in results.items() if result.status in PASSING)
    return {
        "regression_tests": passing,
        "regression_source": "base_tree" if listed is None else "dataset",
        "regression_left_out": len(ids) - len(passing),
    }


async def _existing(work: Work, state: AgentState, gathered: tuple[str, ...]) -> list[str]:
    """Ids of existing tests in order of relation, as many as are wanted."""
    wanted = work.spec.tests.regression
    files = related(await _test_files(work), gathered)[:MAX_FILES]
    own, found = set(state.repro_files), list[str]()
    files = [file for file in files if file not in own]
    for start in range(0, len(files), _BATCH):
        if len(found) >= wanted:
            break
        found += await runs.collect(work, files[start : start + _BATCH])
    return list(dict.fromkeys(found))[:wanted]


async def _test_files(work: Work) -> list[str]:
    session = work.session
    argv = ("/bin/sh", "-c", _LIST, "sh", session.base_tree)
    done = await session.sandbox.run(Command(argv, cwd=ROOT, timeout_s=120, output_limit=16_000_000))
    if done.returncode != 0:
        return []
    names = done.output.decode("utf-8", "surrogateescape").split("\0")
    return sorted(name for name in names if is_test_file(name))


def related(tests: Iterable[str], gathered: Iterable[str]) -> list[str]:
    """Test files by relation to the gathered files, closest first; equal ones by path.

    Being gathered itself counts most, then sharing words of the name with a gathered module (`test_calc.py` with
    `calc.py`), then sharing folders with one.
    """
    sources = [PurePosixPath(path) for path in gathered]

    def distance(test: str) -> tuple[bool, int, int, str]:
        path = PurePosixPath(test)
        words = set(_WORD.findall(path.stem.lower())) - {"test", "tests"}
        same = max((len(words & set(_WORD.findall(source.stem.lower()))) for source in sources), default=0)
        near = max((len(set(path.parent.parts) & set(source.parent.parts)) for source in sources), default=0)
        return path not in sources, -same, -near, test

    return sorted(tests, key=distance)
