"""How a work tree gets into a sandbox: as a tar stream through a pipe, unpacked by `tar` inside the sandbox.

Unpacking inside is what makes it safe: a hostile archive can only write where its own sandbox may write.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import zstandard

from uchide.errors import StoreError


def check(source: Path) -> None:
    """Raise StoreError when `source` is neither a folder nor a `.tar.zst` file."""
    if not source.is_dir() and not (source.is_file() and source.name.endswith(".tar.zst")):
        raise StoreError(f"{source} is no tree for a sandbox", hint="expected a folder or a .tar.zst archive")


def fill(fd: int | None) -> dict[str, Any] | None:
    """Return the guest's first command: unpack the stream that it inherits as `fd`."""
    if fd is None:
        return None
    argv = ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--file=-"]
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return {"fd": fd, "argv": argv, "cwd": "/testbed", "env": env, "timeout_s": 300.0, "output_limit": 4000}


def send(source: Path, fd: int) -> None:
    """Write `source` as a tar stream to `fd` and close it. That the reader has gone is for its own side to tell."""
    with os.fdopen(fd, "wb") as pipe, contextlib.suppress(BrokenPipeError):
        if source.is_dir():
            argv = ["tar", "--create", "--format=gnu", "--file=-", "--directory", str(source), "."]
            done = subprocess.run(argv, stdout=pipe, stderr=subprocess.PIPE, check=False)
            if done.returncode not in (0, -13):
                raise StoreError(f"cannot read {source}: {done.stderr.decode('utf-8', 'replace').strip()}")
            return
        try:
            with source.open("rb") as file:
                reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
                shutil.copyfileobj(reader, pipe, 1 << 20)
        except zstandard.ZstdError as error:
            raise StoreError(f"{source} is not a readable archive: {error}") from error
