import pytest

from gridtext import Table, read_csv, write_csv

CELLS = ['"x" marks it', 'say "hi"', '"', '""', "old\rmac", "dos\r\nline", "a,b", "line\nbreak", " blanks ", "plain"]


@pytest.mark.parametrize("cell", CELLS)
def test_comes_back(cell):
    table = Table(["a", "b"], [[cell, "end"]])
    assert read_csv(write_csv(table), convert=False) == table


def test_quotes_are_doubled():
    assert write_csv(Table(["a"], [['say "hi"']])) == 'a\n"say ""hi"""\n'


def test_names_too():
    assert write_csv(Table(['5" disk'], [])) == '"5"" disk"\n'


def test_no_needless_quotes():
    assert write_csv(Table(["a;b", "it's"], [["x-y", 1.5]])) == "a;b,it's\nx-y,1.5\n"
