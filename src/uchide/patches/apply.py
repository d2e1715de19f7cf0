"""Apply a patch to a sandbox's work tree, or say why it does not apply. All or nothing, never fuzzy."""

from uchide.errors import PatchError
from uchide.patches.git import ROOT, git_session
from uchide.patches.normalise import normalise
from uchide.protocols import Sandbox

_APPLY = "git apply --whitespace=nowarn --verbose"


async def check_applies(sandbox: Sandbox, patch: str, root: str = ROOT) -> str:
    """Why `patch` does not apply to the work tree; empty when it does. Nothing is changed."""
    try:
        await _apply(sandbox, patch, root, "--check")
    except PatchError as error:
        return error.message
    return ""


async def apply(sandbox: Sandbox, patch: str, root: str = ROOT) -> None:
    """Apply `patch` to the work tree. Raises PatchError (and changes nothing) when it does not apply."""
    await _apply(sandbox, patch, root)


async def _apply(sandbox: Sandbox, patch: str, root: str, *options: str) -> None:
    data = normalise(patch).encode()
    if not data:
        return
    async with git_session(sandbox, root) as session:
        await session.run(" ".join((_APPLY, *options, "-")), stdin=data)
