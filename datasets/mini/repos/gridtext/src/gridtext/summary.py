"""Sums and groups."""

from gridtext.errors import TableError
from gridtext.table import Table


def numbers(table, column):
    """The numbers of a column; empty cells and text are left out, True and False too."""
    return [v for v in table.column(column) if isinstance(v, (int, float)) and not isinstance(v, bool)]


def total(table, column):
    return sum(numbers(table, column))


def mean(table, column):
    """The mean of a column's numbers; None when there are none."""
    found = numbers(table, column)
    return sum(found) / len(found) if found else None


def group(table, by, column, how="sum"):
    """One row per value of `by`, in the order of first appearance: the sum, mean or count of `column`."""
    ways = {"sum": total, "mean": mean, "count": lambda part, name: len(numbers(part, name))}
    if how not in ways:
        raise TableError(f"unknown summary {how!r}, known: {', '.join(ways)}")
    rows = []
    for value in dict.fromkeys(table.column(by)):
        part = Table(table.columns, [row for row in table.rows if row[table.index(by)] == value])
        rows.append([value, ways[how](part, column)])
    return Table([by, f"{how} of {column}"], rows)


def with_total(table, label="total"):
    """The table with one more row: sums of the columns of numbers, the label in the first column."""
    last = [label]
    for name in table.columns[1:]:
        found = numbers(table, name)
        last.append(sum(found) if found else None)
    return Table(table.columns, [*table.rows, last], table.title)
