"""What a configuration has to hold."""

from slateconf import values
from slateconf.errors import ConfigError, SchemaError

KINDS = {
    "str": values.unquote,
    "int": values.to_int,
    "float": values.to_float,
    "bool": values.to_bool,
    "list": values.to_list,
    "duration": values.to_duration,
    "size": values.to_size,
}


class Field:
    """One key: its kind, whether it must be there, its bounds (both ends included) and its allowed values."""

    def __init__(self, kind="str", required=False, low=None, high=None, choices=None):
        if kind not in KINDS:
            raise ConfigError(f"unknown kind: {kind}")
        self.kind = kind
        self.required = required
        self.low = low
        self.high = high
        self.choices = choices

    def problem(self, key, value):
        """What is wrong with a value, or None."""
        if self.low is not None and value < self.low:
            return f"{key}: {value} is below {self.low}"
        if self.high is not None and value > self.high:
            return f"{key}: {value} is above {self.high}"
        if self.choices is not None and value not in self.choices:
            return f"{key}: {value!r} is not one of {', '.join(map(str, self.choices))}"
        return None


class Schema:
    """Fields by dotted key. `strict` refuses keys that no field names."""

    def __init__(self, fields, strict=False):
        self.fields = dict(fields)
        self.strict = strict

    def problems(self, config):
        """All problems, in the order of the fields, unknown keys last."""
        found = []
        for key, field in self.fields.items():
            if key not in config:
                if field.required:
                    found.append(f"{key}: missing")
                continue
            try:
                getter = getattr(config, "get" if field.kind == "str" else f"get_{field.kind}")
                problem = field.problem(key, getter(key))
            except ConfigError as error:
                problem = f"{key}: {error}"
            if problem:
                found.append(problem)
        if self.strict:
            found.extend(f"{key}: unknown key" for key, _ in config.items() if key not in self.fields)
        return found

    def check(self, config):
        """Raise SchemaError with all problems, or return the config."""
        problems = self.problems(config)
        if problems:
            raise SchemaError(problems)
        return config
