"""Verdicts on disk, one file per key, written atomically: a patch is judged once per instance and environment."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from uchide.records import Verdict


class VerdictCache:
    """A folder of verdicts. What cannot be read is told of, ignored and written anew."""

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder = folder
        self._notice = notice

    def get(self, key: str) -> Verdict | None:
        path = self._path(key)
        try:
            document = json.loads(path.read_bytes())
            if document["key"] != key:
                raise ValueError("it belongs to another key")
            return Verdict.model_validate_json(json.dumps(document["verdict"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            self._notice(f"verdict cache: ignoring {path}: {reason}")
            return None

    def put(self, key: str, verdict: Verdict) -> None:
        path = self._path(key)
        document = {"key": key, "verdict": json.loads(verdict.model_dump_json())}
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
