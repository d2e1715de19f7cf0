import pytest

from gridtext import TableError, display_width, pad, truncate, wrap
from gridtext.cells import is_number, to_text, to_value


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("", 0), ("日本", 4), ("e\u0301", 1), ("a\nbcd", 3)])
def test_width(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(("align", "padded"), [("left", "ab   "), ("right", "   ab"), ("center", " ab  ")])
def test_pad(align, padded):
    assert pad("ab", 5, align) == padded


def test_pad_too_long():
    assert pad("abcdef", 3) == "abcdef"


def test_truncate():
    assert truncate("abcdef", 4) == "abc…"
    assert truncate("日本語", 4) == "日…"
    assert truncate("abc", 3) == "abc"


def test_wrap():
    assert wrap("the quick brown fox", 9) == ["the quick", "brown fox"]
    assert wrap("one\ntwo three", 20) == ["one", "two three"]
    assert wrap("", 5) == [""]


def test_wrap_cuts_long_words():
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]


def test_wrap_refuses():
    with pytest.raises(TableError):
        wrap("a", 1)


@pytest.mark.parametrize("text", ["3", "-3", "1,234.5", ".5", "12%", " 7 "])
def test_is_number(text):
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "a", "1.2.3", "-", "1 2"])
def test_is_no_number(text):
    assert not is_number(text)


@pytest.mark.parametrize(("value", "text"), [(None, ""), (True, "yes"), (3, "3"), (2.5, "2.5"), (1e6, "1e+06"), ("x", "x")])
def test_to_text(value, text):
    assert to_text(value) == text


def test_to_text_places():
    assert to_text(2.0, 2) == "2.00"
    assert to_text(3, 2) == "3"


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("-2.5", -2.5), ("", None), ("  ", None), ("x y", "x y"), ("12%", "12%")])
def test_to_value(text, value):
    assert to_value(text) == value
