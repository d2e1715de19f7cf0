"""Patches: measured against the tree a session began with, checked, and applied, by git inside a sandbox."""

from uchide.patches.apply import apply, check_applies
from uchide.patches.collect import Change, CollectedPatch, changed_files, collect, snapshot
from uchide.patches.normalise import normalise
from uchide.patches.paths import is_artefact, is_test_path
from uchide.patches.suite import ArchivedSuite, archive

__all__ = [
    "ArchivedSuite",
    "Change",
    "CollectedPatch",
    "apply",
    "archive",
    "changed_files",
    "check_applies",
    "collect",
    "is_artefact",
    "is_test_path",
    "normalise",
    "snapshot",
]
