"""Rows under named columns."""

from gridtext.errors import TableError
from gridtext.order import sort_key


class Table:
    """Columns in order, and rows as lists. Short rows are filled up with None."""

    def __init__(self, columns, rows=(), title=None):
        self.columns = list(columns)
        if len(set(self.columns)) != len(self.columns):
            raise TableError("two columns have the same name")
        self.title = title
        self.rows = []
        for row in rows:
            self.append(row)

    @classmethod
    def from_dicts(cls, records, columns=None):
        """A table from dictionaries; columns in the order in which they first appear."""
        records = list(records)
        if columns is None:
            columns = list(dict.fromkeys(name for record in records for name in record))
        return cls(columns, [[record.get(name) for name in columns] for record in records])

    def __len__(self):
        return len(self.rows)

    def __eq__(self, other):
        return isinstance(other, Table) and (self.columns, self.rows) == (other.columns, other.rows)

    def append(self, row):
        row = list(row)
        if len(row) > len(self.columns):
            raise TableError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")
        self.rows.append(row + [None] * (len(self.columns) - len(row)))

    def index(self, column):
        try:
            return self.columns.index(column)
        except ValueError:
            raise TableError(f"no column {column!r}, there are: {', '.join(self.columns)}") from None

    def column(self, name):
        """The values of a column."""
        index = self.index(name)
        return [row[index] for row in self.rows]

    def select(self, *names):
        """A new table with these columns, in this order."""
        indexes = [self.index(name) for name in names]
        return Table(names, [[row[index] for index in indexes] for row in self.rows], self.title)

    def where(self, test):
        """A new table with the rows for which `test`, called with a dictionary, is true."""
        kept = [row for row in self.rows if test(dict(zip(self.columns, row)))]
        return Table(self.columns, kept, self.title)

    def sorted(self, *names, reverse=False):
        """A new table sorted by columns. Empty cells come last either way, numbers before text."""
        indexes = [self.index(name) for name in names]
        rows = list(self.rows)
        for index in reversed(indexes):
            full = [row for row in rows if row[index] is not None]
            empty = [row for row in rows if row[index] is None]
            rows = sorted(full, key=lambda row: sort_key(row[index]), reverse=reverse) + empty
        return Table(self.columns, rows, self.title)

    def transposed(self, name="column"):
        """Rows and columns exchanged; the values of the first column become the names."""
        names = [name, *map(str, self.column(self.columns[0]))]
        return Table(names, [[column, *self.column(column)] for column in self.columns[1:]], self.title)
