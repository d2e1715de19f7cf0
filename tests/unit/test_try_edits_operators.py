"""Each operator family makes the edits it is named for; every edit can be written as guarded line edits."""

import ast
import textwrap

import pytest

from uchide.tools.try_edits import issue, localise, ops_text, pool, search, snippet
from uchide.tools.try_edits.chunks import Chunks
from uchide.tools.try_edits.site import Repo, Site
from uchide.tools.try_edits.source import Edit, Source, statements

TRACE = {"values": {}, "lines": {}, "functions": {}, "raised": [], "returned": [], "modules": [], "events": 0}


def edits_at(code: str, line: int, raised: tuple[str, ...] = (), **record: str) -> tuple[Source, list[Edit]]:
    """All edits of the statement that starts at the line."""
    source = Source("m.py", textwrap.dedent(code).lstrip("\n").encode())
    node = next(n for n in statements(source.tree) if n.lineno == line)
    unit = localise.Unit(source, node, None, line, 1.0, raised, 0)
    site = Site(unit, issue.build(record), Repo({"m.py": source}, TRACE))
    return source, [edit for operator in pool.OPERATORS for edit in operator(site)]


def results(source: Source, edits: list[Edit]) -> set[str]:
    return {(source.apply(edit.changes) or b"").decode() for edit in edits}


CASES = [
    ("def f(a):\n    if a:\n        return 1\n", 2, "    if a is not None:"),
    ("def f(a):\n    if not a:\n        return 1\n", 2, "    if a is None:"),
    ("def f(a, n):\n    return a[: n]\n", 2, "a[:n + 1]"),
    ("def f(a, n):\n    if a < n:\n        return a\n", 2, "if a <= n:"),
    ("def f(a, b):\n    if a in b:\n        return a\n", 2, "isinstance(b, str)"),
    ("def f(a):\n    if type(a) == int:\n        return a\n", 2, "if isinstance(a, int):"),
    ("def f(a, b, c):\n    if a or b and c:\n        return a\n", 2, "(a or b) and c"),
    ("def f(a, b):\n    if a:\n        x = 1\n    elif b:\n        x = 2\n", 2, "    if b:"),
    ("def f(a):\n    x = max(a)\n    return x\n", 2, "max(a, default=None)"),
    ("def f(a, k):\n    x = a[k]\n    return x\n", 2, "a.get(k, None)"),
    ("def f(a):\n    return a\n", 2, "return bool(a)"),
    ("def f(a, k):\n    del a[k]\n", 2, "    if k in a:\n        del a[k]"),
    ("def f(a):\n    x = a.strip()\n    return x\n", 2, "a.rstrip()"),
    (
        "def f(a):\n    for i in a:\n        print(i)\n        i.go()\n",
        3,
        "        if i is None:\n            continue\n",
    ),
    ("def g(a, flag=None):\n    return a\ndef f(a, flag):\n    return g(a)\n", 4, "g(a, flag=flag)"),
    ("import re\ndef f(a):\n    return re.match('.+', a)\n", 3, "flags=re.DOTALL"),
    ("def f(a):\n    a.one()\n    a.two()\n", 2, "    a.two()\n    a.one()"),
    ("class C:\n    def f(self):\n        return self._name\n", 3, "def name(self):\n        return self._name"),
]


@pytest.mark.parametrize(("code", "line", "wanted"), CASES, ids=[case[2] for case in CASES])
def test_an_operator_makes(code: str, line: int, wanted: str) -> None:
    source, edits = edits_at(code, line, problem_statement="The attribute `name` is missing.")
    assert any(wanted in text for text in results(source, edits))


def test_an_exception_is_caught_where_it_was_seen() -> None:
    code = "def f(a):\n    x = int(a)\n    return x\n"
    source, edits = edits_at(code, 2, ("ValueError",), observed="ValueError: no")
    wanted = "    try:\n        x = int(a)\n    except (ValueError, TypeError, OverflowError):\n        x = None\n"
    assert any(wanted in text for text in results(source, edits))


def test_a_check_is_added_in_the_words_of_the_issue() -> None:
    code = """
    def f(one, two, three):
        if one and three:
            raise TypeError("one excludes three")
        return one
    """
    record = {
        "problem_statement": "`one` and `two` together: 'one excludes `two`'",
        "observed": "ok\n",
        "expected": "TypeError: one excludes two\n",
    }
    source, edits = edits_at(code, 2, **record)
    assert any(
        "    if one and two:\n        raise TypeError('one excludes two')\n" in text for text in results(source, edits)
    )


@pytest.mark.parametrize("indent", ["\t", "  "])
def test_new_lines_keep_the_indentation_and_line_ends_of_the_file(indent: str) -> None:
    code = f"def f(a):\r\n{indent}x = a.b\r\n{indent}return x\r\n"
    source = Source("m.py", code.encode())
    node = source.tree.body[0].body[0]
    unit = localise.Unit(source, node, None, 2, 1.0, (), 0)
    site = Site(unit, issue.build({}), Repo({"m.py": source}, TRACE))
    for edit in (edit for operator in pool.OPERATORS for edit in operator(site)):
        text = source.apply(edit.changes)
        assert text is not None
        assert text.count(b"\n") == text.count(b"\r\n")


def test_almost_all_edits_are_valid_python() -> None:
    code = """
    class C:
        def f(self, a, b=None):
            for x in a:
                if x in self.seen and not b:
                    raise KeyError("no %s" % x)
                self.seen[x] = b or len(a) - 1
            return self.seen.get(b)
    """
    valid = total = 0
    for line in range(1, 8):
        source, edits = edits_at(code, line)
        for text in results(source, edits):
            total += 1
            try:
                ast.parse(text)
                valid += 1
            except SyntaxError:
                pass
    assert total > 300
    assert valid > 0.97 * total


def test_patterns_vary_in_quantifier_class_and_anchor() -> None:
    made = {text for _, _, text in ops_text.variants(r"\d{6}[a-c]$", ["_"])}
    assert {r"\d{1,6}[a-c]$", r"\d{6}[_a-c]$", r"\d{6}[a-c]\Z", r"\d{6}[a-c]"} <= made


def test_like_sites_are_also_edited_together() -> None:
    code = b"def f(a, b):\n    if a:\n        b = 1\n    if a:\n        b = 2\n    return b\n"
    source = Source("m.py", code)
    nodes = [n for n in statements(source.tree) if isinstance(n, ast.If)]
    units = [localise.Unit(source, node, None, node.lineno, 1.0, (), 0) for node in nodes]
    mutants = pool.build(units, issue.build({}), {"m.py": source}, TRACE, __import__("random").Random(1))
    both = code.replace(b"if a:", b"if a is not None:")
    assert any(source.apply(m.changes) == both for m in mutants if m.name.endswith("-all"))


def test_line_edits_rebuild_the_new_text() -> None:
    old = b"a = 1\nb = 2\nc = 3\n"
    new = b"a = 1\nif a:\n    b = 2\nd = 4\n"
    edits = search.line_edits({"m.py": Source("m.py", old)}, {"m.py": new})
    lines = old.decode().split("\n")
    for edit in sorted(edits, key=lambda e: -e["line"]):
        at = edit["line"] - 1
        assert lines[at] == edit["expect"]
        stop = at if edit["op"] == "insert_before" else at + 1
        lines[at:stop] = edit["new"].split("\n") if edit["op"] != "delete" else []
    assert "\n".join(lines).encode() == new


def test_chunks_run_like_the_whole_module() -> None:
    old = b'"""Doc."""\nfrom __future__ import annotations\nX = 1\n\n\ndef f():\n    return X\n\n\nY = f()\n'
    chunks = Chunks(old, "m.py")
    for new in (old.replace(b"return X", b"return X + 1"), old.replace(b"Y = f()", b"Y = f() * 5"), old + b"Z = Y\n"):
        codes = chunks.changed(new)
        assert codes is not None
        parts, whole = {}, {}
        for code in codes:
            exec(code, parts)
        exec(compile(new, "m.py", "exec"), whole)
        assert [parts.get(n) for n in "XYZ"] == [whole.get(n) for n in "XYZ"]
        assert parts["f"].__code__.co_firstlineno == whole["f"].__code__.co_firstlineno


def test_a_session_in_the_statement_serves_as_snippet() -> None:
    statement = "Bug:\n```\n>>> import m\n>>> m.f(0)\n'1.5'\n```\nExpected behaviour\n```\n>>> m.f(0)\n'2'\n```\n"
    assert snippet.find({"problem_statement": statement}) == ("import m\nprint(repr(m.f(0)))\n", "'2'\n")
