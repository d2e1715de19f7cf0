"""What of a session's tests becomes a suite, and what becomes a warning."""

import base64
from pathlib import Path

from support.local import LocalSandbox, commit_all

from uchide.patches import archive, collect, snapshot
from uchide.records import FileContent


def make(tmp_path: Path) -> LocalSandbox:
    for name in ("testbed/tests", "share", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("tests/test_a.py", "tests/test_old.py", "pkg.py"):
        (tmp_path / "testbed" / name).write_text("x = 1\n")
    commit_all(tmp_path / "testbed")
    return LocalSandbox(tmp_path)


async def test_ids_are_whole_lines_and_bad_ones_are_warnings(tmp_path):
    box = make(tmp_path)
    (box.share / "fail_to_pass.txt").write_bytes(
        b"tests/test_a.py::test_p[a b-'x' [1] $HOME :: \\xe9]\r\n"
        b"# a remark\n\n"
        b"tests/test_a.py::T::test_x\n"
        b"tests/test_a.py::T::test_x\n"
        b"tests/test_absent.py::test_y\n"
        b"tests/test_a.py\n"
        b"/etc/passwd::x\n"
        b"../out.py::x\n"
        b"tests/test_a.py::\xff\n"
        b"tests/test_a.py::a\x1b[31m\n"
    )
    (box.share / "pass_to_pass.txt").write_text("tests/test_a.py::T::test_x\ntests/test_a.py::test_z\n")
    archived = await archive(box, (), "i", "pytest")
    first = "tests/test_a.py::test_p[a b-'x' [1] $HOME :: \\xe9]"
    assert archived.suite.fail_to_pass == (first, "tests/test_a.py::T::test_x")
    assert archived.suite.pass_to_pass == ("tests/test_a.py::test_z",)
    assert archived.warnings == (
        "fail_to_pass.txt:7: not a pytest node id (path::name): 'tests/test_a.py'",
        "fail_to_pass.txt:8: not a pytest node id (path::name): '/etc/passwd::x'",
        "fail_to_pass.txt:9: not a pytest node id (path::name): '../out.py::x'",
        "fail_to_pass.txt:10: not a test id: 'tests/test_a.py::\ufffd'",
        "fail_to_pass.txt:11: not a test id: 'tests/test_a.py::a\\x1b[31m'",
        "fail_to_pass.txt: no such file: tests/test_absent.py",
        "1 ids in both lists count as fail_to_pass, e.g. tests/test_a.py::T::test_x",
    )


async def test_dotted_ids_of_other_runners(tmp_path):
    box = make(tmp_path)
    (box.share / "pass_to_pass.txt").write_text("app.tests.T.test_x\nnot one\ntests/test_a.py::test_x\n")
    archived = await archive(box, (), "i", "django")
    assert archived.suite.pass_to_pass == ("app.tests.T.test_x",)
    assert len(archived.warnings) == 2


async def test_test_files_travel_by_content(tmp_path):
    box = make(tmp_path)
    base = await snapshot(box)
    tests = box.testbed / "tests"
    (tests / "test_new.py").write_bytes(b"a = 1\r\nb = 2")
    (tests / "test_a.py").write_text("x = 2\n")
    (tests / "test_old.py").unlink()
    (tests / "run.py").write_text("x\n")
    (tests / "run.py").chmod(0o755)
    (tests / "latin.py").write_bytes(b"# \xe9\n")
    (tests / "conftest.py").write_text("")
    (tests / "link.py").symlink_to("test_a.py")
    (tests / "big.txt").write_text("x" * 2_000_001)
    (box.testbed / "pkg.py").write_text("x = 2\n")
    archived = await archive(box, (await collect(box, base)).tests, "i", "pytest")
    assert archived.suite.files == (
        FileContent(path="tests/conftest.py", data=""),
        FileContent(path="tests/latin.py", data=base64.b64encode(b"# \xe9\n").decode(), base64=True),
        FileContent(path="tests/run.py", data="x\n", executable=True),
        FileContent(path="tests/test_a.py", data="x = 2\n"),
        FileContent(path="tests/test_new.py", data="a = 1\r\nb = 2"),
        FileContent(path="tests/test_old.py", data=None),
    )
    assert [warning.partition(":")[0] for warning in archived.warnings] == [
        "tests/big.txt",
        "tests/conftest.py",
        "tests/link.py",
    ]
    again = await archive(box, (await collect(box, base)).tests, "i", "pytest")
    assert again.suite.sha256 == archived.suite.sha256


async def test_lists_that_are_no_lists(tmp_path):
    box = make(tmp_path)
    (box.share / "fail_to_pass.txt").symlink_to("/dev/zero")
    (box.share / "pass_to_pass.txt").write_text("".join(f"tests/test_a.py::t{n}\n" for n in range(3000)))
    archived = await archive(box, (), "i", "pytest")
    assert archived.suite.fail_to_pass == ()
    assert len(archived.suite.pass_to_pass) == 2000
    assert "only the first 2000" in archived.warnings[0]
