import pytest

from gridtext import Table, display_width, pad, render, truncate, wrap


@pytest.mark.parametrize(("text", "width"), [("ＡＢ", 4), ("１２３", 6), ("日Ａ", 4), ("！", 2), ("ｱ", 1), ("é", 1), ("한", 2)])
def test_width(text, width):
    assert display_width(text) == width


def test_pad():
    assert pad("Ａ", 4) == "Ａ  "
    assert pad("Ａ", 4, "right") == "  Ａ"


def test_truncate_and_wrap():
    assert truncate("ＡＢＣ", 4) == "Ａ…"
    assert wrap("ＡＢＣ", 4) == ["ＡＢ", "Ｃ"]


def test_render():
    assert render(Table(["x", "y"], [["Ａ", "1"], ["bc", "2"]])).splitlines() == ["x   y", "Ａ  1", "bc  2"]


def test_marks_take_no_room():
    assert display_width("e\u0301\u200b") == 1
