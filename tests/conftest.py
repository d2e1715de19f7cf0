"""Its place puts `tests/` on the import path, so that tests can say `from support import ...`."""
