import pytest

from slateconf.errors import ParseError
from slateconf.lexer import classify, logical_lines, strip_comment


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("# all of it", ""),
        ("a = 1 # why", "a = 1 "),
        ("a = 1\t# tab", "a = 1\t"),
        ("a = b#c", "a = b#c"),
        ("a = 1", "a = 1"),
    ],
)
def test_comment(line, kept):
    assert strip_comment(line) == kept


def test_blank_lines_are_left_out():
    assert list(logical_lines("\n\na = 1\n   \nb = 2\n")) == [(3, "a = 1"), (5, "b = 2")]


def test_continuation_joins_lines():
    assert list(logical_lines("a = 1, \\\n    2, \\\n    3\nb = 4")) == [(1, "a = 1, 2, 3"), (4, "b = 4")]


def test_continuation_at_the_end():
    with pytest.raises(ParseError, match="continued"):
        list(logical_lines("a = 1 \\\n"))


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("[server]", ("section", "server")),
        ("[ a.b ]", ("section", "a.b")),
        ("a=1", ("pair", "a", "=", "1")),
        ("a.b += c d", ("pair", "a.b", "+=", "c d")),
        ("a =", ("pair", "a", "=", "")),
        ("@include 'more.conf'", ("include", "more.conf")),
    ],
)
def test_classify(line, entry):
    assert classify(line, 1) == entry


@pytest.mark.parametrize("line", ["[a", "just words", "= 1", "[]"])
def test_classify_refuses(line):
    with pytest.raises(ParseError, match="line 7"):
        classify(line, 7)
