from gridtext import Table
from gridtext.summary import group, mean


def test_mean_of_zeros_is_zero():
    assert mean(Table(["n"], [[0], [0]]), "n") == 0


def test_mean_of_numbers_that_cancel_out():
    assert mean(Table(["n"], [[-2], [2]]), "n") == 0


def test_mean_without_numbers_is_none():
    assert mean(Table(["n"], [[None], ["x"]]), "n") is None


def test_group_means():
    table = Table(["k", "n"], [["a", 0], ["b", 3], ["a", 0], ["c", None]])
    assert group(table, "k", "n", how="mean").rows == [["a", 0], ["b", 3], ["c", None]]
