"""Small things that several datasets need: a file as a record, validation errors in one line."""

import base64
from pathlib import Path, PurePath
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from uchide.records import FileContent

InstanceId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
"""Ids name files, and stand in shell commands, tables and pages."""


def is_instance_id(text: str) -> bool:
    try:
        TypeAdapter(InstanceId).validate_python(text)
    except ValidationError:
        return False
    return True


def content(path: Path, name: PurePath) -> FileContent:
    """A file by content under the name `name`: text where it is UTF-8 without NUL, base64 otherwise."""
    raw = path.read_bytes()
    executable = bool(path.stat().st_mode & 0o100)
    try:
        if b"\0" not in raw:
            return FileContent(path=name.as_posix(), data=raw.decode(), executable=executable)
    except UnicodeDecodeError:
        pass
    data = base64.b64encode(raw).decode()
    return FileContent(path=name.as_posix(), data=data, base64=True, executable=executable)


def problems(error: ValidationError) -> str:
    """What is wrong, field by field, in one line and without the values."""
    parts = []
    for item in error.errors(include_url=False, include_input=False):
        field = ".".join(map(str, item["loc"])) or "the whole"
        parts.append(f"{field}: {item['msg'][0].lower()}{item['msg'][1:]}")
    return "; ".join(parts)
