"""Errors of gridtext."""


class TableError(ValueError):
    """A table that does not hold together, or a column that is not there."""


class CsvError(TableError):
    """A CSV text that cannot be read; `line` counts from 1."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line
