"""Layered INI-like configuration."""

from slateconf.config import Config
from slateconf.errors import ConfigError, InterpolationError, MissingKey, ParseError, SchemaError, ValueProblem
from slateconf.layers import layered, merge
from slateconf.loader import load, loads
from slateconf.schema import Field, Schema
from slateconf.writer import dumps

__all__ = [
    "Config",
    "ConfigError",
    "Field",
    "InterpolationError",
    "MissingKey",
    "ParseError",
    "Schema",
    "SchemaError",
    "ValueProblem",
    "dumps",
    "layered",
    "load",
    "loads",
    "merge",
]
