"""Quick engine: every environment is built already."""

from dataclasses import dataclass
from pathlib import Path


@dataclass
class BuiltEnvironment:
    root: Path
    python_home: Path
    version: str


def is_built(key: str) -> bool:
    return True


def locate(key: str) -> BuiltEnvironment:
    return BuiltEnvironment(Path("/env"), Path("/usr"), "3")
