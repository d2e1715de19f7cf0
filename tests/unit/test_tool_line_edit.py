"""line_edit.py: guarded edits on bytes, one case per way in which edit tools go wrong."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.interpreters import interpreters, tool


def call(root: Path, request: Any, *args: str, python: str = sys.executable) -> tuple[int, str]:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    done = subprocess.run(
        [python, tool("line_edit"), *args], cwd=root, input=data, capture_output=True, timeout=30, check=False
    )
    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text
    return done.returncode, text


def edit(line: int, expect: str, new: str | None = None, op: str = "replace", path: str = "f.txt") -> dict[str, Any]:
    request = {"path": path, "line": line, "expect": expect, "op": op}
    return request if new is None else {**request, "new": new}


DONE = [
    pytest.param(b"a\nb\nc\n", edit(2, "b", "B"), b"a\nB\nc\n", id="replace"),
    pytest.param(b"a\nb\nc\n", edit(2, "b\n", "B\n"), b"a\nB\nc\n", id="final newlines ignored"),
    pytest.param(b"a\nb\n", edit(1, "a", "1\n2\n3"), b"1\n2\n3\nb\n", id="several lines"),
    pytest.param(b"a\nb\n", edit(2, "b", "x", "insert_before"), b"a\nx\nb\n", id="insert before"),
    pytest.param(b"a\nb\n", edit(1, "a", "x\ny", "insert_after"), b"a\nx\ny\nb\n", id="insert after"),
    pytest.param(b"a\nb\nc", edit(2, "b", op="delete"), b"a\nc", id="delete"),
    pytest.param(b"a\nb", edit(2, "b", op="delete"), b"a\n", id="delete the last, which has no end"),
    pytest.param(b"a\n\nb\n", edit(2, "", "x"), b"a\nx\nb\n", id="empty line"),
    pytest.param(b"a\nb\n", edit(1, "a", ""), b"\nb\n", id="make empty"),
    pytest.param(b"a\r\nb\r\n", edit(1, "a", "1\n2"), b"1\r\n2\r\nb\r\n", id="CRLF kept"),
    pytest.param(b"a\r\nb\r\n", edit(1, "a\r\n", "1\r\n2\r\n"), b"1\r\n2\r\nb\r\n", id="CRLF given"),
    pytest.param(b"a\r\nb\nc\r\n", edit(2, "b", "x\ny"), b"a\r\nx\ny\nc\r\n", id="mixed ends: the line's own"),
    pytest.param(b"a\r\nb", edit(2, "b", "x", "insert_after"), b"a\r\nb\r\nx", id="no end at EOF, neighbour's between"),
    pytest.param(b"a\nb", edit(2, "b", "1\n2"), b"a\n1\n2", id="no end at EOF kept"),
    pytest.param(b"\ta\n\tb\n", edit(1, "\ta", "\tc"), b"\tc\n\tb\n", id="tabs"),
    pytest.param(b"x\xff\xfe\na\n", edit(2, "a", "b"), b"x\xff\xfe\nb\n", id="bytes that are not UTF-8 elsewhere"),
    pytest.param(b"x\xff\n", edit(1, "x\udcff", "y\udcff"), b"y\xff\n", id="bytes that are not UTF-8 in the line"),
    pytest.param(b"\xef\xbb\xbfa\nb\n", edit(1, "a", "c"), b"\xef\xbb\xbfc\nb\n", id="BOM stays"),
    pytest.param(
        "a\x0cb\u2028c\x85d\re\nz\n".encode(), edit(2, "z", "y"), "a\x0cb\u2028c\x85d\re\ny\n".encode(), id="breaks"
    ),
    pytest.param("é\n".encode(), edit(1, "é", "è"), "è\n".encode(), id="non-ASCII"),
]


@pytest.mark.parametrize(("before", "request_", "after"), DONE)
def test_edit_changes_just_that(tmp_path: Path, before: bytes, request_: dict[str, Any], after: bytes) -> None:
    (tmp_path / "f.txt").write_bytes(before)
    assert call(tmp_path, request_)[0] == 0
    assert (tmp_path / "f.txt").read_bytes() == after
    assert [path.name for path in tmp_path.iterdir()] == ["f.txt"]


MISMATCH = [
    pytest.param("\tx = 1\n", "    x = 1", "indentation or spacing (the line is indented with tabs)", id="tabs"),
    pytest.param("    x = 1\n", "\tx = 1", "indented with spaces)", id="spaces"),
    pytest.param("x = 1  \n", "x = 1", "only in trailing whitespace", id="trailing"),
    pytest.param("say(“hi”)\n", 'say("hi")', "only in look-alike characters", id="quotes"),
    pytest.param("a\u00a0b\n", "a-b", "different text", id="other"),
    pytest.param("a – b\n", "a - b", "look-alike", id="dash"),
    pytest.param("cafe\u0301\n", "café", "Unicode composition (NFC/NFD)", id="composition"),
    pytest.param("    x = 1\n", "12\t    x = 1", "starts with a line number", id="numbered"),
]


@pytest.mark.parametrize(("line", "expect", "says"), MISMATCH)
def test_mismatch_is_explained_and_nothing_is_changed(tmp_path: Path, line: str, expect: str, says: str) -> None:
    data = line.encode()
    (tmp_path / "f.txt").write_bytes(data)
    rc, text = call(tmp_path, edit(1, expect, "new"))
    assert rc == 3
    assert says in text
    assert (tmp_path / "f.txt").read_bytes() == data


def test_mismatch_names_where_the_text_is_and_shows_escapes(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("\tone\ntwo\nthree\ntwo\né\n")
    rc, text = call(tmp_path, edit(1, "two", "x"))
    assert rc == 3
    assert "lines with exactly the expected text: 2, 4" in text
    assert "actual:   →one" in text
    assert "\\xe9" in call(tmp_path, edit(5, "e", "x"))[1]
    assert "there is no line 9, the file has 5" in call(tmp_path, edit(9, "two", "x"))[1]


def test_refusals(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("a\n")
    (tmp_path / "outside").write_text("a\n")
    (root / "link").symlink_to("../outside")
    (root / "bin").write_bytes(b"a\n\0")
    (root / "wide").write_bytes("a\n".encode("utf-16"))
    (root / "big").write_bytes(b"a\n" * (5 << 20))
    (root / "ro").write_text("a\n")
    (root / "ro").chmod(0o444)
    (root / "same").write_text("a\n")
    os.mkfifo(root / "fifo")
    for path, says in [
        ("../outside", "outside"),
        ("/etc/passwd", "outside"),
        ("link", "outside"),
        (".git/config", "inside .git"),
        ("bin", "binary"),
        ("wide", "UTF-16"),
        ("big", "limit"),
        ("ro", "read-only"),
        ("fifo", "not a regular file"),
        (".", "outside"),
        ("gone", "No such file"),
    ]:
        rc, text = call(root, edit(1, "a", "b", path=path))
        assert (path, rc) == (path, 4)
        assert says in text
    rc, text = call(root, edit(1, "a", "a", path="same"))
    assert (rc, "no change" in text) == (4, True)
    assert (tmp_path / "outside").read_text() == "a\n"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        ([], "object"),
        ({"edits": []}, "at least one edit"),
        ({"edits": [3]}, "object"),
        ({"path": "f.txt", "line": "1", "expect": "a", "new": "b"}, "whole number"),
        ({"path": "f.txt", "line": True, "expect": "a", "new": "b"}, "whole number"),
        ({"path": "f.txt", "line": 1, "new": "b"}, '"expect"'),
        ({"path": "f.txt", "line": 1, "expect": "a"}, '"new"'),
        ({"path": "f.txt", "line": 1, "expect": "a\nb", "new": "b"}, "one line"),
        ({"path": "f.txt", "line": 1, "expect": "a", "new": "b", "op": "append"}, "known: replace"),
        ({"path": "f.txt", "line": 1, "expect": "a", "new": "b", "old": "c"}, "unknown key old"),
        ({"path": "f.txt", "line": 1, "expect": "a", "new": "\ud800"}, "surrogates"),
    ],
)
def test_usage_errors(tmp_path: Path, request_: Any, says: str) -> None:
    (tmp_path / "f.txt").write_text("a\n")
    rc, text = call(tmp_path, request_)
    assert rc == 2
    assert says in text
    assert (tmp_path / "f.txt").read_text() == "a\n"


def test_request_file(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("a\n")
    (tmp_path / "r.json").write_text(json.dumps(edit(1, "a", "b")))
    assert call(tmp_path, b"", "--json", "r.json")[0] == 0
    assert (tmp_path / "f.txt").read_text() == "b\n"
    assert call(tmp_path, b"", "--json", "gone.json")[0] == 2


def test_links_mode_and_hard_links_survive(tmp_path: Path) -> None:
    (tmp_path / "real.sh").write_text("a\n")
    (tmp_path / "real.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("real.sh")
    assert call(tmp_path, edit(1, "a", "b", path="link"))[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.sh").read_text() == "b\n"
    assert stat.S_IMODE((tmp_path / "real.sh").stat().st_mode) == 0o755
    os.link(tmp_path / "real.sh", tmp_path / "twin.sh")
    assert call(tmp_path, edit(1, "b", "c", path="twin.sh"))[0] == 0
    assert (tmp_path / "real.sh").read_text() == "c\n"
    assert (tmp_path / "real.sh").stat().st_nlink == 2


def test_list_of_edits_is_atomic_and_numbers_mean_the_file_before(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("1\n2\n3\n4\n")
    (tmp_path / "g.txt").write_text("g\n")
    edits = [edit(1, "1", "one\nuno"), edit(4, "4", "four"), edit(2, "2", op="delete"), edit(1, "g", "G", path="g.txt")]
    rc, text = call(tmp_path, {"edits": [*edits, edit(3, "wrong", "x")]})
    assert rc == 3
    assert ((tmp_path / "f.txt").read_text(), (tmp_path / "g.txt").read_text()) == ("1\n2\n3\n4\n", "g\n")
    rc, text = call(tmp_path, {"edits": edits})
    assert rc == 0
    assert ((tmp_path / "f.txt").read_text(), (tmp_path / "g.txt").read_text()) == ("one\nuno\n3\nfour\n", "G\n")
    assert ">     4\tfour" in text
    rc, text = call(tmp_path, {"edits": [edit(1, "one", "x"), edit(1, "one", "y")]})
    assert (rc, "two edits of the same line" in text) == (4, True)


def test_failed_write_takes_back_the_earlier_files(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can write into every folder")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in ("a", "b"):
        (tmp_path / name / "f").write_text("x\n")
    (tmp_path / "b").chmod(0o555)
    rc, _ = call(tmp_path, {"edits": [edit(1, "x", "y", path="a/f"), edit(1, "x", "y", path="b/f")]})
    (tmp_path / "b").chmod(0o755)
    assert rc == 4
    assert (tmp_path / "a" / "f").read_text() == "x\n"


@pytest.mark.parametrize("python", interpreters())
def test_result_display_and_new_syntax_errors(tmp_path: Path, python: str) -> None:
    (tmp_path / "m.py").write_text("".join(f"x{i} = {i}\n" for i in range(1, 12)))
    rc, text = call(tmp_path, edit(6, "x6 = 6", "if x5:\n    x6 = 6", path="m.py"), python=python)
    assert rc == 0
    assert "m.py: 12 lines now; later line numbers moved by +1" in text
    shown = [line for line in text.splitlines() if "\t" in line]
    assert shown[0] == "      3\tx3 = 3"
    assert shown[3:5] == [">     6\tif x5:", ">     7\t    x6 = 6"]
    assert shown[-1] == "     10\tx9 = 9"
    assert "SYNTAX" not in text
    rc, text = call(tmp_path, edit(7, "    x6 = 6", "    x6 = (6", path="m.py"), python=python)
    assert rc == 0
    assert "NEW SYNTAX ERROR (the edit was made): m.py:" in text
    rc, text = call(tmp_path, edit(1, "x1 = 1", "x1 = 2", path="m.py"), python=python)
    assert "NEW" not in text
    assert "still does not compile, as before the edit" in text
