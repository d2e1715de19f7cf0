"""A real `bwrap` sandbox from the side of its users: commands, files, limits, endings."""

from pathlib import Path

import pytest

from uchide.protocols import Command, SandboxSpec
from uchide.sandboxes import provider

pytestmark = pytest.mark.sandbox


def sh(script: str, **options) -> Command:
    return Command(("sh", "-c", script), **options)


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "hello.txt").write_text("hello\n")
    return SandboxSpec(tree=tree)


async def test_output_and_errors_arrive_together_in_order(spec):
    async with provider("bwrap").open(spec) as sandbox:
        done = await sandbox.run(sh("echo one; echo two >&2; cat hello.txt; exit 7"))
    assert (done.returncode, done.output, done.killed) == (7, b"one\ntwo\nhello\n", "")


async def test_write_then_read(spec):
    async with provider("bwrap").open(spec) as sandbox:
        await sandbox.write("/share/a/b.sh", b"#!/bin/sh\necho ran\n", executable=True)
        assert (await sandbox.run(sh("/share/a/b.sh"))).output == b"ran\n"
        assert await sandbox.read("hello.txt") == b"hello\n"
        with pytest.raises(FileNotFoundError):
            await sandbox.read("/share/none")
