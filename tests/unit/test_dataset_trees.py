"""Base trees: reproducible, one commit, bytes untouched; and archives that try to get out."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from uchide.datasets import trees
from uchide.datasets.git import git, init
from uchide.datasets.release_bugs import gold_patch, unpack_sdist
from uchide.datasets.unpacking import extract
from uchide.errors import DatasetError

FILES = {
    "a.py": b"x = 1\r\ny = '\xc3\xa9'\n\xff\xfe no utf-8",
    ".gitattributes": b"* text=auto eol=lf\n*.txt ident\n",
    ".gitignore": b"*.log\n",
    "kept.log": b"ignored by the tree, part of it all the same",
    "d\xc3\xa9p \xe2\x80\xa8/n'\"\n.txt": b"$Id$\n",
    "empty/": b"",
}


def make(folder: Path, files: dict) -> Path:
    for name, data in files.items():
        path = Path(
            os.fsdecode(os.fsencode(folder) + b"/" + (name.encode("latin-1") if isinstance(name, str) else name))
        )
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder


@pytest.fixture
def tree(tmp_path):
    folder = make(tmp_path / "tree", FILES)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o775)
    (folder / "link").symlink_to("a.py")
    return folder


def test_round_trip_is_byte_exact(tree, tmp_path):
    digest = trees.pack(tree, tmp_path / "out")
    trees.unpack(tmp_path / "out" / f"{digest}.tar.zst", tmp_path / "there")
    assert trees.content_digest(tmp_path / "there") == digest == trees.content_digest(tree)
    assert (tmp_path / "there" / "a.py").read_bytes() == FILES["a.py"]
    assert (tmp_path / "there" / "empty").is_dir()


def test_archive_is_the_same_from_another_place_and_time(tree, tmp_path):
    digest = trees.pack(tree, tmp_path / "one")
    other = tmp_path / "elsewhere" / "copy"
    trees.copy(tree, other)
    os.utime(other / "a.py", (1, 1))
    (other / "__pycache__").mkdir()
    (other / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"stale")
    (other / ".git").mkdir()
    (other / ".git" / "history").write_text("later commits")
    assert trees.pack(other, tmp_path / "two") == digest
    assert (tmp_path / "one" / f"{digest}.tar.zst").read_bytes() == (
        tmp_path / "two" / f"{digest}.tar.zst"
    ).read_bytes()


def test_one_clean_commit_and_nothing_else(tree, tmp_path):
    digest = trees.pack(tree, tmp_path / "out")
    there = tmp_path / "there"
    trees.unpack(tmp_path / "out" / f"{digest}.tar.zst", there)
    run = lambda *args: subprocess.run(["git", *args], cwd=there, capture_output=True, text=True, check=True).stdout  # noqa: E731
    assert (
        run("log", "--all", "--format=%an <%ae> %aI %s") == "Uchide <uchide@localhost> 2000-01-01T00:00:00+00:00 base\n"
    )
    assert run("status", "--porcelain", "--ignored") == ""
    assert run("reflog") == ""
    run("fsck", "--strict")
    assert not [path for path in ("hooks", "logs", "ORIG_HEAD") if (there / ".git" / path).exists()]


def test_users_git_configuration_plays_no_part(tree, tmp_path, monkeypatch):
    config = tmp_path / "gitconfig"
    config.write_text("[core]\nautocrlf = input\nhooksPath = /tmp/x\n[user]\nname = Me\n[commit]\ngpgsign = true\n")
    first = trees.pack(tree, tmp_path / "one")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert trees.pack(tree, tmp_path / "two") == first
    assert (tmp_path / "one" / f"{first}.tar.zst").read_bytes() == (tmp_path / "two" / f"{first}.tar.zst").read_bytes()


def test_damaged_archive(tree, tmp_path):
    digest = trees.pack(tree, tmp_path / "out")
    path = tmp_path / "out" / f"{digest}.tar.zst"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        trees.unpack(path, tmp_path / "there")


def test_unpack_wants_an_empty_folder(tree, tmp_path):
    with pytest.raises(DatasetError, match="not empty"):
        trees.unpack(tmp_path / "any", tree)


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> tarfile.TarFile:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    buffer.seek(0)
    return tarfile.open(fileobj=buffer)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "members",
    [
        [(member("../out"), b"x")],
        [(member("/abs"), b"x")],
        [(member("a/../../out"), b"x")],
        [(member("a", tarfile.SYMTYPE, "../out"), b"")],
        [(member("a", tarfile.SYMTYPE, "/etc/passwd"), b"")],
        [(member("a", tarfile.LNKTYPE, "/etc/passwd"), b"")],
        [(member("dev", tarfile.CHRTYPE), b"")],
        [(member("pipe", tarfile.FIFOTYPE), b"")],
    ],
)
def test_hostile_archives(tmp_path, members):
    (tmp_path / "in").mkdir()
    with pytest.raises(DatasetError, match="some archive"):
        extract(archive(*members), tmp_path / "in", what="some archive")
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "in").mkdir()
    members = [(member("real/x"), b"1"), (member("l", tarfile.SYMTYPE, "real"), b""), (member("l/x"), b"2")]
    with pytest.raises(DatasetError):
        extract(archive(*members), tmp_path / "in", what="some archive")
    assert (tmp_path / "in" / "real" / "x").read_bytes() == b"1"


def test_sdist_needs_one_top_folder(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in ("one/a", "two/b"):
            tar.addfile(member(name))
    with pytest.raises(DatasetError, match="no single top folder"):
        unpack_sdist(path, tmp_path / "x")
    path.write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        unpack_sdist(path, tmp_path / "y")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nc"),
        ("é\nß\n".encode(), "é\nſ\u2028x\n".encode()),
        (b"\ta\n  b  \n", b"\ta\n  b\n"),
        (None, b"new\n"),
        (b"old\n", None),
    ],
)
def test_gold_patch_applies_to_the_byte(tmp_path, before, after):
    name = "päck/mod ule.py"
    for folder, data in (("before", before), ("after", after)):
        (tmp_path / folder / "päck").mkdir(parents=True)
        (tmp_path / folder / "other.txt").write_text(folder)
        if data is not None:
            (tmp_path / folder / name).write_bytes(data)
    base = tmp_path / "base"
    trees.unpack(tmp_path / f"{trees.pack(tmp_path / 'before', tmp_path)}.tar.zst", base)
    patch = gold_patch(base, tmp_path / "after", [name])
    assert git(base, "status", "--porcelain") == b""
    assert (base / name).exists() == (before is not None)
    git(base, "apply", "--whitespace=nowarn", stdin=patch.encode())
    assert ((base / name).read_bytes() if (base / name).exists() else None) == after
    assert (base / "other.txt").read_text() == "before"


def test_gold_patch_that_changes_nothing(tmp_path):
    for folder in ("base", "after"):
        make(tmp_path / folder, {"a.py": b"same\n"})
    init(tmp_path / "base")
    git(tmp_path / "base", "add", "-A")
    git(tmp_path / "base", "commit", "-qm", "x")
    with pytest.raises(DatasetError, match="do not differ"):
        gold_patch(tmp_path / "base", tmp_path / "after", ["a.py"])
