"""What every stored record shares: frozen, strict about unknown fields, and explicit about volatile columns."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

VOLATILE: dict[str, Any] = {"volatile": True}
"""`Field(json_schema_extra=VOLATILE)` marks a column that differs from run to run (times, host, CPU seconds): it is
stored, and left out of every content digest."""


class Record(BaseModel):
    """One row or document of an artifact."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def is_volatile(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("volatile"))


def stable(value: Any) -> Any:  # noqa: ANN401 (walks anything a record can hold)
    """`value` as JSON data, without the volatile columns of any record inside it."""
    if isinstance(value, Record):
        fields = type(value).model_fields
        return {name: stable(getattr(value, name)) for name, field in fields.items() if not is_volatile(field)}
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [stable(item) for item in value]
    return value


def canonical(record: Record) -> str:
    """The record as sorted, compact ASCII JSON without its volatile columns; what content digests are made of."""
    return json.dumps(stable(record), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:  # noqa: ANN401 (anything JSON can hold)
    """SHA-256, as 64 hex digits, of bytes, text, a record, or any JSON value (canonical form)."""
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    elif isinstance(value, Record):
        data = canonical(value).encode()
    else:
        data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(data).hexdigest()
