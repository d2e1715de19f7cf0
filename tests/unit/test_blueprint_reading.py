"""From failing output to a reading list, from notes to a bundle, and the work tree kept and put back."""

import os
import sqlite3
from contextlib import asynccontextmanager, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.blueprint import make_blueprint_task
from support.local import LocalProvider, git

from uchide.agents.blueprint import reading
from uchide.agents.blueprint.baseline import related
from uchide.agents.blueprint.nodes.reproduce import read_pairs
from uchide.agents.blueprint.state import AgentState, ContextBundle, Discrepancy, GatherQueue, Note, TodoTest
from uchide.agents.blueprint.tree import files_of, only, put_share, put_tree, share_of, tree_of
from uchide.agents.checkpoint import Checkpoint
from uchide.agents.reasoning import without_reasoning
from uchide.errors import StoreError
from uchide.patches import snapshot
from uchide.protocols import SandboxSpec
from uchide.testing import instance_spec

PYTHON = """Traceback (most recent call last):
  File "/testbed/tests/test_calc.py", line 7, in test_add
    self.assertEqual(total(2, 3), 5)
  File "/testbed/src/pkg/sums.py", line 30, in total
    return add(a, b)
  File "/usr/lib/python3/case.py", line 9, in run
"""
PYTEST = """src/pkg/sums.py:31: in total
    return add(a, b)
tests/test_calc.py:12: AssertionError
E       assert add(2, 3) == 5
E        +  where -1 = add(2, 3)
>       assert len(sorted(rows(1))) == Maker().made
http://example.org:80: no frame
"""


def test_frames_of_python_and_pytest():
    assert reading.frames(PYTHON) == [
        ("/testbed/tests/test_calc.py", 7),
        ("/testbed/src/pkg/sums.py", 30),
        ("/usr/lib/python3/case.py", 9),
    ]
    assert reading.frames(PYTEST) == [("src/pkg/sums.py", 31), ("tests/test_calc.py", 12)]


def test_assert_lines_name_what_they_call():
    assert reading.asserted_names(PYTEST) == ["add", "rows", "Maker"]
    assert reading.asserted_names(PYTHON) == ["total"]


@given(st.text())
def test_no_output_breaks_the_reading_of_it(text):
    assert all(line >= 0 for _, line in reading.frames(text))
    assert all(name.isidentifier() for name in reading.asserted_names(text))


@asynccontextmanager
async def opened(folder, files):
    task = make_blueprint_task(folder)
    for name, text in files.items():
        (task.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (task.tree / name).write_text(text)
    provider = LocalProvider()
    async with provider.open(instance_spec(task.instance, task.tree, None, None)) as sandbox:
        yield sandbox


async def test_the_queue_is_seeded_innermost_first_with_tests_last(tmp_path):
    files = {
        "src/pkg/sums.py": "def total(a, b):\n    pass\n",
        "src/pkg/rows.py": "class Maker:\n    async def rows(self):\n        pass\n",
    }
    async with opened(tmp_path, files) as sandbox:
        queue = await reading.seeded(sandbox, [PYTHON, PYTEST])
    assert queue.queue == ("src/pkg/sums.py", "calc.py", "src/pkg/rows.py", "tests/test_calc.py")
    assert queue.lines["src/pkg/sums.py"] == (1, 30, 31)
    assert queue.lines["src/pkg/rows.py"] == (1, 2)
    assert queue.why["calc.py"] == "defines `add`, which a failing assertion calls"
    assert queue.seen == queue.queue


async def test_only_files_of_the_repository_exist(tmp_path):
    async with opened(tmp_path, {"a b.py": "", "pkg/c.py": ""}) as sandbox:
        (sandbox.testbed / "out.py").symlink_to("/etc/hostname")
        (sandbox.testbed / "in.py").symlink_to("calc.py")
        there = ["calc.py", "a b.py", "in.py"]
        absent = ["pkg", "../share/x", "/etc/hostname", "out.py", ".git/config", "", "x\ny"]
        assert await reading.existing(sandbox, [*absent, *there]) == there
    assert [reading.plain(path) for path in ("/testbed/a.py", "./a.py", " pkg/../a.py", "../x")] == [
        *["a.py"] * 3,
        "../x",
    ]


def test_the_queue_gives_each_file_once():
    queue = GatherQueue()
    for path in ("a.py", "b.py", "a.py"):
        queue = reading.enqueue(queue, path, f"why {path}")
    assert queue.queue == ("a.py", "b.py")
    queue = reading.dequeue(queue)
    assert (queue.current, queue.queue) == ("a.py", ("b.py",))
    assert reading.enqueue(queue, "a.py", "again") == queue
    queue = reading.dequeue(reading.dequeue(queue))
    assert (queue.current, queue.queue, queue.seen) == (None, (), ("a.py", "b.py"))


def test_notes_are_grouped_by_file_and_line_without_the_irrelevant():
    first = GatherQueue(
        notes=(
            Note(path="b.py", line=9, text="nine"),
            Note(path="a.py", line=1, text="one"),
            Note(path="b.py", line=2, text="two"),
            Note(path="c.py", text="nothing", relevant=False),
        ),
        why={"a.py": "because"},
    )
    made = reading.bundle(first, ContextBundle())
    assert [(file.path, file.why, [note.text for note in file.notes]) for file in made.files] == [
        ("a.py", "because", ["one"]),
        ("b.py", "found while reading", ["two", "nine"]),
    ]
    second = GatherQueue(
        notes=(
            Note(path="b.py", line=5, text="five"),
            Note(path="b.py", line=2, text="two"),
            Note(path="a.py", text="wrong track", relevant=False),
        )
    )
    (file,) = reading.bundle(second, made).files
    assert (file.path, [note.text for note in file.notes]) == ("b.py", ["two", "five", "nine"])


def test_related_tests_come_first():
    tests = ["a/test_other.py", "tests/test_sums.py", "src/pkg/tests/test_x.py", "tests/test_row_sums_more.py"]
    assert related(tests, ["src/pkg/sums.py"]) == [
        "tests/test_row_sums_more.py",
        "tests/test_sums.py",
        "src/pkg/tests/test_x.py",
        "a/test_other.py",
    ]
    assert related(tests, ["a/test_other.py"])[0] == "a/test_other.py"
    assert related(reversed(tests), []) == sorted(tests)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"observed": "a", "expected": "b"}]', [Discrepancy(observed="a", expected="b")]),
        ('Sure:\n```json\n[{"observed": "a\n", "expected": "]"}]\n```', [Discrepancy(observed="a\n", expected="]")]),
        ("none", "there is no JSON array"),
        ("[]", "the array is empty"),
        ('[{"observed": "a"}]', "0.expected: Field required"),
        ('[{"observed": 1, "expected": "b"}]', "0.observed: Input should be a valid string"),
        ("[1]", "0: Input should be"),
        ("[", "the JSON is malformed"),
        ("[" * 100_000, "the JSON is malformed"),
    ],
)
def test_discrepancies_are_read_or_it_is_said_why_not(text, found):
    got = read_pairs(text)
    assert got == found if isinstance(found, list) else isinstance(got, str) and found in got


def test_the_state_survives_being_data_and_is_strict():
    state = AgentState(
        discrepancies=(Discrepancy(observed="a", expected="b"),),
        todo_list=(
            TodoTest(id="a", kind="repro", status="failed", traceback="t"),
            TodoTest(id="b", kind="regression", status="passed"),
            TodoTest(id="c", kind="repro", status="skipped"),
        ),
        visits={"VERIFY": 2},
        queue=GatherQueue(lines={"a": (1, 2)}),
    )
    assert AgentState.from_dict(state.to_dict()) == state
    assert ([test.id for test in state.unmet], state.regressions) == (["a", "c"], ())
    assert state.update({"current_node": "END"}).current_node == "END"
    assert state.current_node == "LOAD_TASK"
    assert not any("fail_to_pass" in name for name in AgentState.model_fields)
    for wrong in ({"no_such_field": 1}, {"attempts": "x"}):
        with pytest.raises(ValidationError):
            state.update(wrong)


def mess(root):
    """Changes of every kind that git can see."""
    (root / "calc.py").write_bytes(b"\0\xff\r\nbinary")
    (root / "calc.py").chmod(0o755)
    (root / "gone/deep.py").unlink()
    (root / "file").unlink()
    (root / "file").mkdir()
    (root / "file/inner").write_text("a folder in place of a file")
    for child in (root / "folder").iterdir():
        child.unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to("calc.py")
    (root / "new").mkdir()
    (root / "new/ö \n x").write_text("odd name")
    os.utime(root / "new/ö \n x", (1, 1))
    (root / "crlf.txt").write_bytes(b"a\r\nb\n")


def content(root):
    """Everything below a folder but `.git`: kind, mode and bytes."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] == ".git" or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = path.readlink() if path.is_symlink() else (path.stat().st_mode & 0o777, path.read_bytes())
    return found


BASE = {"gone/deep.py": "d", "file": "f", "folder/one": "1", "folder/two": "2", ".gitattributes": "* text=auto\n"}


async def test_a_tree_is_put_back_byte_for_byte_here_and_elsewhere(tmp_path):
    async with opened(tmp_path, BASE) as first:
        base = await snapshot(first)
        clean = content(first.testbed)
        untouched = await tree_of(first, base)
        mess(first.testbed)
        messy = content(first.testbed)
        head = git(first.testbed, "status", "--porcelain")
        kept = await tree_of(first, base)
        assert content(first.testbed) == messy
        assert git(first.testbed, "status", "--porcelain") == head
        assert await tree_of(first, base) == kept
        await put_tree(first, base, untouched)
        assert content(first.testbed) == clean
        assert files_of(untouched) == ()
        (first.testbed / "other.py").write_text("to go")
        await put_tree(first, base, kept)
        assert content(first.testbed) == messy
        await put_tree(first, base, only(kept, ["new/ö \n x"]))
        assert content(first.testbed) == clean | {"new/ö \n x": messy["new/ö \n x"]}
    async with LocalProvider().open(SandboxSpec(tmp_path / "tree")) as second:
        assert await snapshot(second) == base
        await put_tree(second, base, kept)
        assert content(second.testbed) == messy
        assert await tree_of(second, base) == kept


async def test_a_share_is_put_back_whole(tmp_path):
    async with opened(tmp_path, {}) as sandbox:
        (sandbox.share / "a b").mkdir()
        (sandbox.share / "a b/x").write_bytes(b"\0\xff")
        (sandbox.share / ".hidden").write_text("h")
        before = content(sandbox.share)
        kept = await share_of(sandbox)
        (sandbox.share / "a b/x").unlink()
        (sandbox.share / "more").write_text("m")
        await put_share(sandbox, kept)
        assert content(sandbox.share) == before


PAIR = {"observed": "a", "expected": "b"}


@pytest.mark.parametrize(
    "text",
    [
        'See [1]: [{"observed": "a", "expected": "b"}]',
        '<think>[a, b] or [{"observed": 1}]</think>[{"observed": "a", "expected": "b"}]',
        'I think of x[0].\n</think>\n```json\n[{"observed": "a", "expected": "b"}]\n```',
    ],
)
def test_brackets_before_the_pairs_are_no_pairs(text):
    assert [pair.model_dump() for pair in read_pairs(text)] == [PAIR]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none", "no JSON array"),
        ("[1] and [2", "malformed"),
        ("[{}]", "observed"),
        ("[" * 5000, "malformed"),
        ("[]", "empty"),
    ],
)
def test_what_is_wrong_with_pairs_is_said(text, says):
    assert says in read_pairs(text) or "valid" in read_pairs(text)


def test_half_an_emoji_in_a_pair_fits_in_every_file():
    (pair,) = read_pairs('[{"observed": "\\ud83d", "expected": "b"}]')
    assert pair.observed.encode() == b"?"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"),
        ("a\n</think>\nb", "\nb"),
        ("<think>never closed", "<think>never closed"),
        ("grep '</think>' x", "grep '</think>' x"),
        ("b", "b"),
    ],
)
def test_reasoning_before_an_answer(text, rest):
    assert without_reasoning(text) == rest


def test_a_checkpoint_that_another_process_holds_is_not_thrown_away(tmp_path):
    path = tmp_path / "c.sqlite"
    mine = Checkpoint(path, "one")
    assert mine.load() is None
    mine.close()
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        again = Checkpoint(path, "one")
        with pytest.raises(StoreError, match="cannot read the checkpoint"):
            again.load()
        again.close()
    assert path.read_bytes() == before
