import pytest

from gridtext import Table, TableError, render
from gridtext.summary import group, mean, total, with_total


@pytest.fixture
def table():
    return Table(["name", "n", "price"], [["Tea", 2, 3.5], ["Coffee", 10, 12.0], ["Milk", 1, 0.99]])


def test_rows_are_filled_up():
    assert Table(["a", "b"], [[1]]).rows == [[1, None]]
    with pytest.raises(TableError, match="3 cells"):
        Table(["a", "b"], [[1, 2, 3]])
    with pytest.raises(TableError, match="same name"):
        Table(["a", "a"])


def test_from_dicts():
    table = Table.from_dicts([{"a": 1}, {"b": 2, "a": 3}])
    assert (table.columns, table.rows) == (["a", "b"], [[1, None], [3, 2]])


def test_select_and_where(table):
    assert table.select("n", "name").rows[0] == [2, "Tea"]
    assert table.where(lambda row: row["n"] > 1).column("name") == ["Tea", "Coffee"]
    with pytest.raises(TableError, match="no column 'x', there are: name, n, price"):
        table.select("x")


def test_sorted(table):
    assert table.sorted("n").column("n") == [1, 2, 10]
    assert table.sorted("name", reverse=True).column("name") == ["Tea", "Milk", "Coffee"]
    assert table.column("n") == [2, 10, 1]


def test_sorted_by_two_columns():
    table = Table(["a", "b"], [[2, 1], [1, 2], [1, 1]])
    assert table.sorted("a", "b").rows == [[1, 1], [1, 2], [2, 1]]


def test_sorted_naturally():
    table = Table(["f"], [["a10"], ["A2"], [3], ["b1"]])
    assert table.sorted("f").column("f") == [3, "A2", "a10", "b1"]


def test_transposed(table):
    assert table.transposed("what").columns == ["what", "Tea", "Coffee", "Milk"]
    assert table.transposed().rows[0] == ["n", 2, 10, 1]


def test_summary(table):
    assert total(table, "n") == 13
    assert mean(table, "price") == pytest.approx(5.49667, abs=1e-4)
    assert mean(table, "name") is None
    assert with_total(table).rows[-1] == ["total", 13, pytest.approx(16.49)]


def test_group():
    table = Table(["k", "v"], [["a", 1], ["b", 5], ["a", 3]])
    assert group(table, "k", "v").rows == [["a", 4], ["b", 5]]
    assert group(table, "k", "v", "count").rows == [["a", 2], ["b", 1]]
    with pytest.raises(TableError, match="unknown summary"):
        group(table, "k", "v", "median")


def test_plain(table):
    assert render(table).splitlines() == ["name     n  price", "Tea      2    3.5", "Coffee  10     12", "Milk     1   0.99"]


def test_grid():
    assert render(Table(["a"], [["x\ny"]], "T"), "grid").splitlines() == ["T", "+---+", "| a |", "+---+", "| x |", "| y |", "+---+"]


def test_markdown(table):
    assert render(table.select("name", "n"), "markdown").splitlines()[:3] == ["| name | n |", "| :-- | --: |", "| Tea | 2 |"]


def test_places_and_alignment(table):
    lines = render(table.select("price"), places=2, align={"price": "left"}).splitlines()
    assert lines == ["price", "3.50", "12.00", "0.99"]


def test_wrapped_cells():
    assert render(Table(["a", "b"], [["one two", 1]]), max_width=4).splitlines() == ["a    b", "one  1", "two"]


def test_wide_characters_line_up():
    assert render(Table(["a", "b"], [["日本", "x"], ["abc", "y"]])).splitlines() == ["a     b", "日本  x", "abc   y"]


def test_unknown_style(table):
    with pytest.raises(TableError, match="known: plain, grid, markdown"):
        render(table, "fancy")
