"""Dotted keys over nested dictionaries."""

from slateconf.errors import ConfigError, MissingKey


def split(key):
    """`a.b.c` as a list of parts. Empty parts are refused."""
    parts = [part.strip() for part in key.split(".")]
    if not all(parts):
        raise ConfigError(f"bad key: {key!r}")
    return parts


def lookup(data, key):
    """The value at a dotted key."""
    node = data
    for part in split(key):
        if not isinstance(node, dict) or part not in node:
            raise MissingKey(key)
        node = node[part]
    return node


def store(data, key, value):
    """Set the value at a dotted key, making the sections on the way."""
    parts = split(key)
    node = data
    for part in parts[:-1]:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{key!r}: {part!r} is a value, not a section")
        node = child
    node[parts[-1]] = value


def flatten(data, prefix=""):
    """All values as `(dotted key, value)`, in file order."""
    for name, value in data.items():
        key = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            yield from flatten(value, key)
        else:
            yield key, value
