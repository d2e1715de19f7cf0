"""The object that programs hold."""

from slateconf import keys, values
from slateconf.errors import MissingKey
from slateconf.interpolate import expand

REQUIRED = object()


class Config:
    """Nested sections of text values, read with a type."""

    def __init__(self, data=None):
        self._data = {} if data is None else data

    def __contains__(self, key):
        try:
            keys.lookup(self._data, key)
        except MissingKey:
            return False
        return True

    def __eq__(self, other):
        return isinstance(other, Config) and self._data == other._data

    def __repr__(self):
        return f"Config({len(list(keys.flatten(self._data)))} keys)"

    def as_dict(self):
        """The raw nested dictionary."""
        return self._data

    def items(self):
        """All `(dotted key, raw text)`."""
        return list(keys.flatten(self._data))

    def sections(self):
        """Names of the sections at the top."""
        return [name for name, value in self._data.items() if isinstance(value, dict)]

    def raw(self, key):
        """The text as written, quotes and references included."""
        return keys.lookup(self._data, key)

    def set(self, key, value):
        keys.store(self._data, key, str(value))

    def section(self, key):
        """A section as a Config of its own; changes show in both."""
        node = keys.lookup(self._data, key)
        if not isinstance(node, dict):
            raise MissingKey(key)
        return Config(node)

    def get(self, key, default=REQUIRED):
        """The text at `key`, references expanded and quotes removed."""
        return self._typed(key, str, default)

    def get_int(self, key, default=REQUIRED):
        return self._typed(key, values.to_int, default)

    def get_float(self, key, default=REQUIRED):
        return self._typed(key, values.to_float, default)

    def get_bool(self, key, default=REQUIRED):
        return self._typed(key, values.to_bool, default)

    def get_duration(self, key, default=REQUIRED):
        """Seconds as a float."""
        return self._typed(key, values.to_duration, default)

    def get_size(self, key, default=REQUIRED):
        """Bytes as an int."""
        return self._typed(key, values.to_size, default)

    def get_list(self, key, default=REQUIRED):
        return self._typed(key, values.to_list, default, quoted=True)

    def _typed(self, key, convert, default, quoted=False):
        value = self._value(key, convert, quoted)
        if value is None:
            if default is REQUIRED:
                raise MissingKey(key)
            return default
        return value

    def _value(self, key, convert, quoted):
        """The converted value, or None where the key is not there."""
        try:
            raw = keys.lookup(self._data, key)
        except MissingKey:
            return None
        if isinstance(raw, dict):
            return None
        section = key.rpartition(".")[0]
        text = expand(self._data, raw, section)
        return convert(text if quoted else values.unquote(text))
