"""Reading dataset files as people hand them over: bytes checked first, JSON lines split at line feeds only."""

import json
from collections.abc import Iterator
from pathlib import Path

from uchide.errors import DatasetError

LFS = b"version https://git-lfs.github.com/spec/"
MARK = b"\xef\xbb\xbf"


def read_bytes(path: Path) -> bytes:
    """The file's bytes. Raises DatasetError when it is missing, empty or only a Git LFS pointer."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read dataset file {path}: {error.strerror}") from error
    if data.startswith(LFS):
        raise DatasetError(f"{path} is a Git LFS pointer, not the data", hint="run: git lfs pull")
    if not data:
        raise DatasetError(f"{path} is empty")
    return data


def text(path: Path) -> str:
    """The file's text. Raises DatasetError on a byte order mark and on bytes that are not UTF-8, naming the line."""
    data = read_bytes(path)
    if data.startswith(MARK):
        raise DatasetError(f"{path} starts with a byte order mark", hint="save it as plain UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DatasetError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8", hint="save it as UTF-8") from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """`(number from 1, line)` of every line that is not blank. U+2028 and its like are not line ends in JSON."""
    content = text(path)
    parts = content.split("\n")
    for number, line in enumerate(parts, start=1):
        if not line.strip():
            continue
        try:
            json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(parts):
                raise DatasetError(
                    f"{path}, line {number}: the file ends in the middle of a row", hint="copy it again"
                ) from error
            raise DatasetError(f"{path}, line {number}: not JSON: {error.msg} at column {error.colno}") from error
        yield number, line
