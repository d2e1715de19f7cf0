"""Errors. Everything that slateconf raises on purpose is a ConfigError."""


class ConfigError(Exception):
    """Base of all errors."""


class ParseError(ConfigError):
    """A line that cannot be understood."""

    def __init__(self, message, line=None):
        super().__init__(f"line {line}: {message}" if line is not None else message)
        self.line = line


class MissingKey(ConfigError, KeyError):
    """A key that is asked for and not there."""

    def __init__(self, key):
        super().__init__(key)
        self.key = key

    def __str__(self):
        return f"no such key: {self.key}"


class ValueProblem(ConfigError, ValueError):
    """A value of the wrong type."""


class InterpolationError(ConfigError):
    """A reference that leads nowhere, or in a circle."""


class SchemaError(ConfigError):
    """A configuration that does not fit its schema; `problems` lists all of them."""

    def __init__(self, problems):
        super().__init__("; ".join(problems))
        self.problems = list(problems)
