"""Strict YAML: what a person meant, or an error with file and line.

YAML 1.1 reads `no` as false, `010` as 8 and `1:30` as 90. Here such a scalar is refused and the way to write it is
named. So are duplicate keys, keys that are not text, merge keys, custom tags and several documents.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from uchide.errors import ConfigError
from uchide.store.atomic import lfs_hint

KeyPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_TAGS = {"str", "int", "float", "bool", "null", "timestamp", "value"}
_NULL = {"", "~", "null"}
_SUSPECT = (
    (re.compile(r"(?i)yes|no|on|off|y|n|true|false"), "write true or false, or quote it if it is text"),
    (re.compile(r"(?i)null"), "write null, or quote it if it is text"),
    (re.compile(r"[-+]?0[0-7_]+|0o[0-7_]+"), "an octal number to some readers: write it in decimal, or quote it"),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F_]+|[-+]?0b[01_]+|[-+]?0[0-9_]+"), "write it in decimal, or quote it"),
    (re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"), "a base-60 number to some readers: quote it"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"), "a date to some readers: quote it"),
    (re.compile(r"(?i)[-+]?\.(inf|nan)"), "not a number that can be used here"),
)
_MAX_DEPTH = 40
_MAX_DIGITS = 100


@dataclass(frozen=True)
class Document:
    """A parsed file; `lines[key path]` is where a value stands, counted from 1."""

    path: Path
    data: Any
    lines: dict[KeyPath, int]

    def where(self, at: KeyPath) -> str:
        """`file:line` of a key path, or of its nearest parent."""
        while at and at not in self.lines:
            at = at[:-1]
        return f"{self.path}:{self.lines.get(at, 1)}"


def load(path: Path) -> Document:
    """Read one YAML file. Raises ConfigError with file, line, and what to write instead."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", hint="save it as UTF-8") from error
    return parse(text, path)


def parse(text: str, path: Path) -> Document:
    """Parse YAML text that stands for the file `path`."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = error.problem or error.context or "not YAML"
        raise ConfigError(f"{path}:{line}: {what}", hint=lfs_hint(path)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(node, MappingNode):
        raise ConfigError(f"{path}: a mapping (`key: value` lines) was expected", hint=lfs_hint(path))
    lines: dict[KeyPath, int] = {}
    return Document(path, _Reader(path, lines).value(node, ()), lines)


class _Reader:
    def __init__(self, path: Path, lines: dict[KeyPath, int]) -> None:
        self.path = path
        self.lines = lines

    def fail(self, node: Node, message: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.path}:{node.start_mark.line + 1}: {message}", hint=hint)

    def value(self, node: Node, at: KeyPath) -> Any:  # noqa: ANN401 (YAML data)
        if len(at) > _MAX_DEPTH or len(self.lines) > 100_000:
            raise self.fail(node, "nested too deep, or an alias repeated too often")
        self.lines[at] = node.start_mark.line + 1
        if isinstance(node, ScalarNode):
            return self.scalar(node)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*at, n)) for n, item in enumerate(node.value)]
        return self.mapping(node, at)

    def mapping(self, node: Node, at: KeyPath) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                raise self.fail(key_node, "merge keys (`<<`) are not supported", "write the keys out")
            key = self.scalar(key_node) if isinstance(key_node, ScalarNode) else None
            if not isinstance(key, str):
                shown = f"key {key_node.value!r}" if isinstance(key_node, ScalarNode) else "a list or mapping as key"
                raise self.fail(key_node, f"{shown} is not text", "quote it")
            if key in out:
                first = self.lines[(*at, key)]
                raise self.fail(key_node, f"key {key!r} stands here and in line {first}", "remove one of them")
            out[key] = self.value(value_node, (*at, key))
            self.lines[(*at, key)] = key_node.start_mark.line + 1
        return out

    def scalar(self, node: ScalarNode) -> str | int | float | bool | None:
        text = str(node.value)
        if not text.isascii() and re.search("[\ud800-\udfff]", text):
            raise self.fail(node, f"{text!r} is not text: it holds half a character")
        if node.style in ("'", '"', "|", ">"):
            return text
        if node.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            raise self.fail(node, f"tag {node.tag!r} is not supported")
        plain = {"true": True, "false": False}
        if text in plain:
            return plain[text]
        if text in _NULL:
            return None
        if _INT.fullmatch(text):
            if len(text) > _MAX_DIGITS:
                raise self.fail(node, f"a number of {len(text)} digits", "quote it if it is text")
            return int(text.replace("_", ""))
        for pattern, hint in _SUSPECT:
            if pattern.fullmatch(text):
                raise self.fail(node, f"{text!r} is ambiguous", hint)
        return float(text) if _FLOAT.fullmatch(text) else text
