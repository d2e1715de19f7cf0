"""From text to a Config."""

from pathlib import Path

from slateconf import keys
from slateconf.config import Config
from slateconf.errors import ConfigError, ParseError
from slateconf.lexer import classify, logical_lines


def loads(text, base=None):
    """Parse a text. `base` is the folder that `@include` starts from; without one, includes are refused."""
    data = {}
    _read(text, data, Path(base) if base is not None else None, ())
    return Config(data)


def load(path):
    """Parse a file. Includes are relative to it."""
    path = Path(path)
    data = {}
    _read(_text(path), data, path.parent, (path.resolve(),))
    return Config(data)


def _text(path):
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def _read(text, data, base, chain):
    section = ""
    for number, line in logical_lines(text):
        entry = classify(line, number)
        if entry[0] == "section":
            section = entry[1]
            _section(data, section, number)
        elif entry[0] == "include":
            _include(entry[1], data, base, chain, number)
        else:
            node = _section(data, section, number) if section else data
            _assign(node, *entry[1:], number)


def _section(data, name, number):
    node = data
    for part in keys.split(name):
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise ParseError(f"{name!r} is already a value", number)
    return node


def _assign(node, key, op, value, number):
    if op == "+=":
        try:
            old = keys.lookup(node, key)
        except KeyError:
            old = ""
        value = f"{old}, {value}" if old else value
    try:
        keys.store(node, key, value)
    except ConfigError as error:
        raise ParseError(str(error), number) from None


def _include(name, data, base, chain, number):
    if base is None:
        raise ParseError("@include needs a file to start from", number)
    path = (base / name).resolve()
    if path in chain:
        raise ParseError(f"{name} includes itself", number)
    _read(_text(path), data, path.parent, (*chain, path))
