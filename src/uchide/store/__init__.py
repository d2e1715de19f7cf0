"""The store: artifacts as folders, written row by row by one process and read by any."""

from uchide.store.artifact import Artifact, read_rows, verify
from uchide.store.manifest import Identity, Manifest, RunInfo, instance_set
from uchide.store.part import AlreadyFinishedError, Part, open_part

__all__ = [
    "AlreadyFinishedError",
    "Artifact",
    "Identity",
    "Manifest",
    "Part",
    "RunInfo",
    "instance_set",
    "open_part",
    "read_rows",
    "verify",
]
