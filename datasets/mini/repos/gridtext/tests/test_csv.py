import pytest

from gridtext import CsvError, Table, read_csv, write_csv
from gridtext.csvread import fields


def test_read():
    table = read_csv("a,b\n1,x\n2.5,\n")
    assert table.columns == ["a", "b"]
    assert table.rows == [[1, "x"], [2.5, None]]


def test_quotes():
    assert list(fields('"a,b","c ""d""","e\nf"\n')) == [["a,b", 'c "d"', "e\nf"]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end):
    assert list(fields(f"a,b{end}c,d{end}")) == [["a", "b"], ["c", "d"]]


def test_blank_lines_and_short_rows():
    assert read_csv("a,b\n\n1\n\n").rows == [[1, None]]


def test_no_header():
    assert read_csv("1;2\n3;4;5", delimiter=";", header=False).columns == ["c1", "c2", "c3"]


def test_no_conversion():
    assert read_csv("a\n007\n", convert=False).rows == [["007"]]


def test_mark_is_dropped():
    assert read_csv("\ufeffa\n1\n").columns == ["a"]


def test_empty_text():
    assert len(read_csv("")) == 0


@pytest.mark.parametrize(("text", "line"), [('a\n"b', 2), ('"a"b\n', 1), ('x\n"a\nb"c', 3)])
def test_bad_quotes(text, line):
    with pytest.raises(CsvError) as caught:
        list(fields(text))
    assert caught.value.line == line


def test_write():
    table = Table(["a", "b"], [[1, "x,y"], [None, "line\nbreak"]])
    assert write_csv(table) == 'a,b\n1,"x,y"\n,"line\nbreak"\n'


def test_write_other_delimiter():
    assert write_csv(Table(["a", "b"], [["x,y", "p;q"]]), delimiter=";", end="\r\n") == 'a;b\r\nx,y;"p;q"\r\n'
