from gridtext import Table


def column(values, reverse=False):
    return Table(["v"], [[value] for value in values]).sorted("v", reverse=reverse).column("v")


def test_text():
    assert column(["Tea", None, "Milk"]) == ["Milk", "Tea", None]
    assert column(["Tea", None, "Milk"], reverse=True) == ["Tea", "Milk", None]


def test_numbers():
    assert column([2, None, 1]) == [1, 2, None]
    assert column([None, 1, 2], reverse=True) == [2, 1, None]


def test_mixed():
    assert column(["zebra", None, 3, "None"]) == [3, "None", "zebra", None]
    assert column(["zebra", None, 3], reverse=True) == ["zebra", 3, None]


def test_order_of_empty_rows_stays():
    table = Table(["a", "b"], [[None, 2], [1, 0], [None, 1]])
    assert table.sorted("a").column("b") == [0, 2, 1]
    assert table.sorted("a", "b").column("b") == [0, 1, 2]


def test_false_and_zero_are_not_empty():
    assert column([0, None, -1, ""]) == [-1, 0, "", None]
