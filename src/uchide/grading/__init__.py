"""Graders by name, and the preflight of instances."""

import difflib
from collections.abc import Callable
from pathlib import Path

from uchide.errors import ConfigError
from uchide.grading.native import NativeGrader, NativeLimits
from uchide.grading.preflight import preflight
from uchide.protocols import Grader, SandboxProvider

GRADERS = ("native",)

__all__ = ["GRADERS", "NativeGrader", "NativeLimits", "create", "preflight"]


def create(
    name: str, sandboxes: SandboxProvider, cache_dir: Path, *, notice: Callable[[str], None] = lambda _: None
) -> Grader:
    """The grader called `name`; its verdicts are cached under `cache_dir`/verdicts. Raises ConfigError."""
    if name != "native":
        near = difflib.get_close_matches(name, GRADERS, n=1, cutoff=0.0)[0]
        raise ConfigError(f"unknown grader {name!r}", hint=f"nearest: {near}; known: {', '.join(GRADERS)}")
    return NativeGrader(sandboxes, cache_dir, notice=notice)
