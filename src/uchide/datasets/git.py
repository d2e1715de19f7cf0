"""Git with nothing of the user's or the machine's configuration, for the trees and patches of datasets."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from uchide.errors import DatasetError

ATTRIBUTES = "* -text -ident -filter -working-tree-encoding\n"
"""Bytes are bytes, whatever a tree's own .gitattributes asks for."""

SETTINGS = {
    "user.name": "Uchide",
    "user.email": "uchide@localhost",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "true",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.logAllRefUpdates": "false",
    "commit.gpgSign": "false",
    "pack.threads": "1",
    "gc.auto": "0",
    "safe.directory": "*",
}


def git(folder: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """Standard output of one git command in `folder`. Raises DatasetError with git's own words when it fails."""
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    clean = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        **(env or {}),
    }
    try:
        done = subprocess.run(
            ["git", *settings, *arguments], cwd=folder, env=clean, input=stdin, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise DatasetError("git is not installed", hint="install the package git") from None
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise DatasetError(f"git {arguments[0]} failed in {folder}: {words}")
    return done.stdout


def init(folder: Path) -> None:
    """An empty repository in `folder` that stores bytes as they are."""
    git(folder, "init", "-q", "--template=", "--initial-branch=main")
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text(ATTRIBUTES)
