"""Tables as text."""

from gridtext.csvread import read_csv
from gridtext.csvwrite import write_csv
from gridtext.errors import CsvError, TableError
from gridtext.render import render
from gridtext.table import Table
from gridtext.width import display_width, pad, truncate
from gridtext.wrap import wrap

__all__ = [
    "CsvError",
    "Table",
    "TableError",
    "display_width",
    "pad",
    "read_csv",
    "render",
    "truncate",
    "wrap",
    "write_csv",
]
