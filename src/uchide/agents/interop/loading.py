"""One file, whatever wrote it: recognised by its content."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from uchide.agents.interop import atif, mini, openhands, openhands_sdk, own, swe_agent
from uchide.agents.interop.fields import obj, parsed, text
from uchide.agents.interop.model import Imported
from uchide.errors import StoreError

_ZSTD = b"\x28\xb5\x2f\xfd"
_KNOWN = "known are: Uchide, mini-swe-agent, SWE-agent, OpenHands and ATIF"


@dataclass(frozen=True)
class Format:
    """How a format is recognised and read."""

    fits: Callable[[object], bool]
    read: Callable[[object], Imported]


FORMATS = (
    Format(atif.fits, atif.read),
    Format(swe_agent.fits, swe_agent.read),
    Format(openhands.fits, openhands.read),
    Format(mini.fits, mini.read),
)
"""The first one that fits is it."""


def load(path: Path, instance_id: str = "") -> Imported:
    """The trajectory in a file, or in the folder of an OpenHands conversation. `instance_id` names one of several rows.

    Raises StoreError for a file that is none of the known formats, or damaged.
    """
    if path.is_dir():
        return _folder(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith(_ZSTD):
        return own.imported(own.load(path))
    found = _read(path, _chosen(path, _parsed(path, data), instance_id))
    return replace(found, instance_id=found.instance_id or _stem(path))


def _folder(path: Path) -> Imported:
    if openhands_sdk.events_folder(path) is None:
        raise StoreError(f"{path} is a folder without events of OpenHands", hint="name a file in it")
    found = openhands.read(openhands_sdk.read_folder(path))
    return replace(openhands_sdk.with_state(found, path), instance_id=path.resolve().name)


def _parsed(path: Path, data: bytes) -> list[object]:
    """The documents of a JSON file (one), or of JSON lines. A half-written last line is left out."""
    try:
        whole = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StoreError(
            f"{path} is no trajectory: it is neither text nor zstd (byte {error.start})", hint=_KNOWN
        ) from error
    try:
        return [parsed(whole)]
    except ValueError as error:
        first = error
    rows: list[object] = []
    lines = [line for line in whole.split("\n") if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(parsed(line))
        except ValueError as error:
            if number == 1:
                raise StoreError(f"{path} is not JSON: {first}", hint=_KNOWN) from error
            if number < len(lines):
                raise StoreError(f"{path}:{number}: not JSON: {error}") from error
    return rows


def _chosen(path: Path, documents: list[object], instance_id: str) -> object:
    """The document to show: the only one, or the last one of the instance (a later line replaces an earlier one)."""
    if all(isinstance(item, dict) and "instance_id" not in item for item in documents) and len(documents) > 1:
        return documents  # events, one per line
    ids = {text(obj(item).get("instance_id")): item for item in documents}
    if not ids:
        raise StoreError(f"{path} is empty")
    if instance_id and instance_id not in ids and (len(ids) > 1 or "" not in ids):
        raise StoreError(f"{path} has no instance {instance_id!r}", hint=f"it has {_some(list(ids))}")
    if not instance_id and len(ids) > 1:
        raise StoreError(f"{path} holds {len(ids)} trajectories", hint=f"name one with --instance: {_some(list(ids))}")
    return ids.get(instance_id, documents[-1])


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _read(path: Path, data: object) -> Imported:
    for form in FORMATS:
        if form.fits(data):
            return _named(path, form, data)
    shown = ", ".join(sorted(obj(data))[:8]) if isinstance(data, dict) else type(data).__name__
    raise StoreError(f"{path} is of no known format (it holds: {shown})", hint=_KNOWN)


def _named(path: Path, form: Format, data: object) -> Imported:
    try:
        return form.read(data)
    except StoreError as error:  # a reader knows the place in the file, not the file
        raise StoreError(f"{path}: {error.message}", hint=error.hint) from error


def _stem(path: Path) -> str:
    return path.name.removesuffix(".json").removesuffix(".traj")
