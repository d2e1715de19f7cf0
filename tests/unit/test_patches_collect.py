"""Patch collection with real git, in a repository whose own configuration fights back."""

import os
import shutil
from pathlib import Path

import pytest
from support.local import LocalSandbox, commit_all, git

from uchide.errors import PatchError
from uchide.patches import apply, changed_files, check_applies, collect, snapshot
from uchide.protocols import Command


def make(tmp_path: Path, files: dict[str, bytes]) -> LocalSandbox:
    root = tmp_path / "box"
    for name in ("testbed", "share", "tmp"):
        (root / name).mkdir(parents=True)
    for name, data in files.items():
        path = root / "testbed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    commit_all(root / "testbed")
    return LocalSandbox(root)


def clone_base(box: LocalSandbox, tmp_path: Path) -> LocalSandbox:
    """Another sandbox with the base tree of `box` before any change."""
    root = tmp_path / "fresh"
    shutil.copytree(box.root, root, symlinks=True)
    return LocalSandbox(root)


BASE = {
    "pkg/__init__.py": b"",
    "pkg/a.py": b"one\ntwo\nthree\n",
    "pkg/crlf.py": b"a = 1\r\nb = 2\r\nc = 3\r\n",
    "pkg/open.py": b"x = 1\ny = 2",
    "pkg/latin.py": b"# caf\xe9\nz = 1\n",
    "pkg/uni.py": "s = 'a\u2028b'\nt = 'é'\n".encode(),
    "pkg/gone.py": b"old\n",
    "pkg/script.sh": b"echo\n",
    "pkg/blank.py": b"a\n\nb\n\nc\n\n",
    "naïve name.py": b"v = 1\n",
    "img.png": b"\x89PNG\0\0\1",
    ".gitattributes": b"eol.txt eol=crlf\n",
    "eol.txt": b"l1\r\nl2\r\n",
    "tests/test_a.py": b"def test_a():\n    pass\n",
}


def edit(testbed: Path) -> None:
    (testbed / "pkg/a.py").write_bytes(b"one\n2\nthree\n")
    (testbed / "pkg/crlf.py").write_bytes(b"a = 1\r\nb = 22\r\nc = 3\r\n")
    (testbed / "pkg/open.py").write_bytes(b"x = 1\ny = 3")
    (testbed / "pkg/latin.py").write_bytes(b"# caf\xe9\nz = 2\n")
    (testbed / "pkg/uni.py").write_bytes("s = 'a\u2028b'\nt = 'è'\n".encode())
    (testbed / "pkg/gone.py").unlink()
    (testbed / "pkg/blank.py").write_bytes(b"a\n\nB\n\nc\n\n")
    (testbed / "naïve name.py").write_bytes(b"v = 2\n")
    (testbed / "eol.txt").write_bytes(b"l1\r\nL2\r\n")
    (testbed / "pkg/empty").mkdir()
    (testbed / "pkg/empty/__init__.py").write_bytes(b"")
    (testbed / "pkg/new open.py").write_bytes(b"no newline")
    (testbed / "Binary files a and b differ").write_bytes(b"text\n")
    (testbed / "link").symlink_to("pkg/a.py")


async def test_every_kind_of_file_survives_the_round_trip(tmp_path):
    box = make(tmp_path, BASE)
    base = await snapshot(box)
    fresh = clone_base(box, tmp_path)
    edit(box.testbed)
    collected = await collect(box, base)
    assert collected.warnings == ("pkg/latin.py: not UTF-8, kept as a git binary patch",)
    assert collected.patch.endswith("\n")
    assert await check_applies(fresh, collected.patch) == ""
    await apply(fresh, collected.patch)
    want = {path: path.read_bytes() for path in box.testbed.rglob("*") if path.is_file() and ".git/" not in str(path)}
    for path, data in want.items():
        assert (fresh.testbed / path.relative_to(box.testbed)).read_bytes() == data, path
    assert not (fresh.testbed / "pkg/gone.py").exists()
    assert (fresh.testbed / "link").readlink() == Path("pkg/a.py")


HOSTILE_CONFIG = """
[diff]
noprefix = true
mnemonicPrefix = true
external = /bin/false
renames = copies
[color]
ui = always
[core]
pager = false
fsmonitor = touch /tmp/owned
hooksPath = /nowhere
autocrlf = true
attributesFile = /dev/zero
excludesFile = .git/all
bare = true
worktree = /nowhere
sparseCheckout = true
[filter "evil"]
clean = touch /tmp/owned; cat
required = true
[diff "evil"]
textconv = touch /tmp/owned; cat
command = touch /tmp/owned
[include]
path = /nowhere
[apply]
whitespace = error-all
"""


async def test_a_hostile_repository_changes_nothing(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n2\n3  \n"})
    base = await snapshot(box)
    repository = box.testbed / ".git"
    (box.testbed / "a.py").write_bytes(b"1\nfixed  \n3  \n")
    (box.testbed / "b.py").write_bytes(b"new\n")
    git(box.testbed, "add", "-A")
    git(box.testbed, "commit", "-q", "-m", "hide it")
    git(box.testbed, "update-index", "--assume-unchanged", "a.py")
    git(box.testbed, "update-index", "--skip-worktree", "b.py")
    (repository / "config").write_text(HOSTILE_CONFIG.replace("/tmp", f"{box.root}/tmp"))
    (repository / "all").write_text("*\n")
    (repository / "info/exclude").write_text("*\n")
    (repository / "info/attributes").write_text("* filter=evil diff=evil binary\n")
    (box.root / "tmp/.gitconfig").write_text("[diff]\nnoprefix = true\n")
    (box.root / "tmp/.config/git").mkdir(parents=True)
    (box.root / "tmp/.config/git/ignore").write_text("*\n")
    (repository / "HEAD").write_text("ref: refs/heads/nowhere\n")
    (repository / "index.lock").write_text("")
    box.env["GIT_DIR"] = "/nowhere"
    box.env["GIT_EXTERNAL_DIFF"] = "/bin/false"
    index = (repository / "index").read_bytes()
    collected = await collect(box, base)
    assert collected.files == ("a.py", "b.py")
    assert collected.warnings == ()
    assert "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n 1\n-2\n+fixed  \n 3  \n" in collected.patch
    assert not (box.root / "tmp/owned").exists()
    assert (repository / "index").read_bytes() == index
    assert not list((box.root / "tmp").glob("uchide-git.*"))


async def test_attributes_of_the_tree_cannot_hide_text(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n"})
    base = await snapshot(box)
    (box.testbed / ".gitattributes").write_text("*.py binary -diff filter=x ident working-tree-encoding=UTF-16\n")
    (box.testbed / "a.py").write_text("2\n")
    collected = await collect(box, base)
    assert "-1\n+2\n" in collected.patch
    assert collected.warnings == ()


async def test_leftovers_are_dropped_with_a_warning_and_tests_are_kept_apart(tmp_path):
    box = make(tmp_path, {"pkg/a.py": b"1\n", "build/tool.py": b"1\n", "run.sh": b"1\n", "tests/test_a.py": b"1\n"})
    base = await snapshot(box)
    testbed = box.testbed
    (testbed / "pkg/a.py").write_text("2\n")
    (testbed / "build/new.py").write_text("source of a repository that keeps sources in build/\n")
    (testbed / "dist/lib").mkdir(parents=True)
    (testbed / "dist/lib/a.py").write_text("copy\n")
    (testbed / "pkg/__pycache__").mkdir()
    (testbed / "pkg/__pycache__/a.cpython-311.pyc").write_bytes(b"\0")
    (testbed / "a.py.orig").write_text("x\n")
    (testbed / "img.png").write_bytes(b"\0\1")
    (testbed / "out").symlink_to("/etc/passwd")
    (testbed / "up").symlink_to("../../x")
    (testbed / "run.sh").chmod(0o755)
    (testbed / "scratch.py").write_text("declared\n")
    (testbed / "tests/test_b.py").write_text("def test_b(): pass\n")
    (testbed / "nested").mkdir()
    (testbed / "nested/x.py").write_text("1\n")
    commit_all(testbed / "nested")
    collected = await collect(box, base, exclude=["scratch.py"])
    assert collected.files == ("build/new.py", "pkg/a.py")
    assert [change.name for change in collected.tests] == ["tests/test_b.py"]
    assert collected.warnings == (
        "a.py.orig: build product or cache, dropped",
        "dist/lib/a.py: build product or cache, dropped",
        "img.png: binary file, dropped",
        "nested: nested repository, dropped",
        "out: symbolic link to /etc/passwd, outside the repository, dropped",
        "pkg/__pycache__/a.cpython-311.pyc: build product or cache, dropped",
        "run.sh: only its mode changed (100644 -> 100755), dropped",
        "up: symbolic link to ../../x, outside the repository, dropped",
    )
    assert {change.name for change in await changed_files(box, base)} >= {"img.png", "scratch.py"}


async def test_a_package_that_is_called_test_is_source(tmp_path):
    files = (
        "django/__init__.py", "django/test/__init__.py", "django/test/client.py", "django/test/tests/test_client.py",
        "pkg/__init__.py", "pkg/tests/__init__.py", "pkg/tests/util.py", "pkg/tests/unit/test_a.py",
        "tests/__init__.py", "tests/util.py",
    )  # fmt: skip
    box = make(tmp_path, dict.fromkeys(files, b"1\n"))
    base = await snapshot(box)
    for name in files[2:]:
        (box.testbed / name).write_text("2\n")
    for name in ("django/test/test_new.py", "django/http/tests/data.json"):
        (box.testbed / name).parent.mkdir(parents=True, exist_ok=True)
        (box.testbed / name).write_text("3\n")
    collected = await collect(box, base)
    assert collected.files == ("django/test/client.py", "pkg/__init__.py")
    assert {change.name for change in collected.tests} == {
        "django/test/tests/test_client.py", "django/test/test_new.py", "django/http/tests/data.json", *files[5:],
    }  # fmt: skip


async def test_a_dirty_base_is_not_part_of_the_patch(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n2\n3\n"})
    (box.testbed / "a.py").write_text("1\n2\nenvironment\n")
    (box.testbed / "setup.txt").write_text("made by the image\n")
    base = await snapshot(box)
    (box.testbed / "a.py").write_text("1\nfix\nenvironment\n")
    collected = await collect(box, base)
    assert collected.files == ("a.py",)
    assert " environment\n" in collected.patch
    assert "+environment" not in collected.patch


async def test_file_replaced_by_a_link_beside_a_file_that_is_not_utf8(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n", "b.py": b"\xe9\n", "c.py": b"1\n"})
    base = await snapshot(box)
    fresh = clone_base(box, tmp_path)
    (box.testbed / "a.py").unlink()
    (box.testbed / "a.py").symlink_to("c.py")
    (box.testbed / "b.py").write_bytes(b"\xe8\n")
    (box.testbed / "c.py").write_bytes(b"2\n")
    collected = await collect(box, base)
    await apply(fresh, collected.patch)
    assert (fresh.testbed / "a.py").readlink() == Path("c.py")
    assert (fresh.testbed / "b.py").read_bytes() == b"\xe8\n"
    assert (fresh.testbed / "c.py").read_bytes() == b"2\n"


async def test_a_name_that_is_not_utf8(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n"})
    base = await snapshot(box)
    fresh = clone_base(box, tmp_path)
    Path(os.fsdecode(bytes(box.testbed) + b"/n\xe9.py")).write_text("x\n")
    collected = await collect(box, base)
    assert collected.files == ("n\\xe9.py",)
    await apply(fresh, collected.patch)
    assert Path(os.fsdecode(bytes(fresh.testbed) + b"/n\xe9.py")).read_text() == "x\n"


async def test_no_change_is_an_empty_patch(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n"})
    assert (await collect(box, await snapshot(box))).patch == ""


async def test_a_patch_of_five_megabytes_is_read_as_a_file_and_a_larger_one_is_dropped(tmp_path):
    box = make(tmp_path, {"a.txt": b""})
    base = await snapshot(box)
    (box.testbed / "a.txt").write_text("0123456789abcdef\n" * 300_000)
    assert len((await collect(box, base)).patch) > 5_000_000
    (box.testbed / "a.txt").write_text("0123456789abcdef\n" * 700_000)
    collected = await collect(box, base)
    assert collected.patch == ""
    assert "larger than" in collected.warnings[0]


async def test_a_removed_repository_is_a_patch_error(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n"})
    base = await snapshot(box)
    shutil.rmtree(box.testbed / ".git")
    with pytest.raises(PatchError, match="git failed"):
        await collect(box, base)


async def test_a_patch_that_does_not_apply_changes_nothing(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n", "b.py": b"1\n"})
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-1\n+2\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-other\n+2\n"
    assert "b.py" in await check_applies(box, patch)
    with pytest.raises(PatchError, match=r"patch failed: b\.py:1"):
        await apply(box, patch)
    assert (box.testbed / "a.py").read_text() == "1\n"


@pytest.mark.parametrize("path", ["../out.py", ".git/config", "link/x.py"])
async def test_a_patch_cannot_leave_the_tree(tmp_path, path):
    box = make(tmp_path, {"a.py": b"1\n"})
    (box.testbed / "link").symlink_to(tmp_path)
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    assert await check_applies(box, patch) != ""


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch program")
async def test_the_collected_patch_satisfies_the_patch_program(tmp_path):
    box = make(tmp_path, {"a.py": b"1\n2\n", "crlf.py": b"1\r\n2\r\n"})
    base = await snapshot(box)
    fresh = clone_base(box, tmp_path)
    (box.testbed / "a.py").write_text("1\n3\n")
    (box.testbed / "crlf.py").write_bytes(b"1\r\n3\r\n")
    patch = (await collect(box, base)).patch
    command = Command(("patch", "--batch", "-p1", "--binary"), stdin=patch.encode())
    assert (await fresh.run(command)).returncode == 0
    assert (fresh.testbed / "crlf.py").read_bytes() == b"1\r\n3\r\n"
