from gridtext import Table
from gridtext.summary import with_total


def test_a_sum_of_zero_is_shown():
    table = with_total(Table(["day", "change"], [["mo", 5], ["tu", -5]]))
    assert table.rows[-1] == ["total", 0]


def test_a_column_without_numbers_stays_empty():
    table = with_total(Table(["day", "note", "n"], [["mo", "x", 1], ["tu", None, 2]]))
    assert table.rows[-1] == ["total", None, 3]


def test_an_empty_table():
    assert with_total(Table(["day", "n"])).rows == [["total", None]]
