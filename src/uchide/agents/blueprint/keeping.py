"""Keeping and putting back the work tree around nodes. What cannot be kept is a warning of the candidate, not an error:
an agent may have removed `.git`, or filled the disk."""

from uchide.agents.blueprint.tree import only, put_tree, tree_of
from uchide.agents.blueprint.work import Work
from uchide.errors import PatchError
from uchide.patches import changed_files
from uchide.protocols import Command

_USABLE = """tmp=${TMPDIR:-/tmp}; chmod u+rwx /testbed /share "$tmp" 2>/dev/null
head -c 1000000 /dev/zero > "$tmp/uchide-probe" 2>/dev/null || rm -rf "$tmp"/* "$tmp"/.[!.]*
rm -f "$tmp/uchide-probe"; mkdir -p "$tmp/home"
"""


async def make_usable(work: Work) -> None:
    """Folders that an agent or a test has locked, and a full `/tmp`, are no reason for our own commands to fail."""
    await work.session.sandbox.run(Command(("/bin/sh", "-c", _USABLE), cwd="/", timeout_s=60))


async def keep(work: Work, what: str) -> bytes | None:
    """The work tree as it is; None, with a warning, when it cannot be kept."""
    session = work.session
    await make_usable(work)
    try:
        kept = await tree_of(session.sandbox, session.base_tree)
    except PatchError as error:
        warn(work, f"{what} could not be kept: {error.message}")
        return None
    if kept is None:
        warn(work, f"{what} could not be kept: its changed files are too large")
    return kept


async def put_back(work: Work, tree: bytes, what: str) -> bool:
    """Make the work tree what was kept; False, with a warning, when that fails."""
    session = work.session
    try:
        await put_tree(session.sandbox, session.base_tree, tree)
    except PatchError as error:
        warn(work, f"{what} could not be put back: {error.message}")
        return False
    return True


async def put_back_all_but_tests(work: Work) -> list[str]:
    """Undo every change but new test files and what was added beside them; the added paths that stay."""
    session = work.session
    await make_usable(work)
    try:
        changes = await changed_files(session.sandbox, session.base_tree)
    except PatchError as error:
        warn(work, f"the tree after REPRODUCE_ISSUE could not be read: {error.message}")
        return []
    added = [change.name for change in changes if change.status == "added" and change.is_test]
    if len(added) < len(changes) and (tree := await keep(work, "the tree after REPRODUCE_ISSUE")) is not None:
        await put_back(work, only(tree, added), "the tree before the repair")
    return added


def warn(work: Work, text: str) -> None:
    """A warning of the candidate, once."""
    if text not in work.session.warnings:
        work.session.warnings.append(text)
