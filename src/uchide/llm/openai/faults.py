"""What went wrong with a request, sorted: worth another try, too long, or for a person to mend."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isnan
from typing import Any, Literal

from uchide.errors import ContextOverflow, ModelError
from uchide.redact import scrub

LONGEST_PAUSE_S = 86_400.0
"""A server cannot ask us to wait for longer than a day."""

Kind = Literal["connect", "server", "answer", "busy"]


@dataclass(frozen=True)
class Fault:
    """A failure that may pass: the server could not be reached, it failed (5xx), this one answer was bad, or it is too
    busy (429)."""

    kind: Kind
    message: str
    retry_after_s: float | None = None
    hint: str = ""


_TOO_LONG = re.compile(
    r"""maximum\ context\ length | maximum\ (?:input|prompt|sequence)\ length | context[ _]length[ _]exceeded
    | exceed_context_size | exceeds?\ (?:the\ |this\ |its\ )?(?:available\ |model'?s?\ )*context
    | longer\ than\ the\ (?:model'?s\ )?(?:maximum\ )?context | exceeds?\ the\ max_(?:model|seq)_len
    | (?:prompt|input|request)\ is\ too\ long | input\ length\ and\ .?max_tokens.?\ exceed\ context
    | .?inputs.?\ tokens\ \+\ .?max_new_tokens.?\ must\ be | .?inputs.?\ must\ have\ less\ than\ \d+\ tokens
    | input\ token\ count\b.*\bexceeds\ the\ maximum | greater\ than\ the\ context\ length
    | too\ large\ for\ model\ with\ \d+\ maximum\ context | context\ (?:window|size)\b.*\b(?:exceeded|too\ small)
    | (?:exceeds?|over)\b.*\bcontext\ (?:window|length|size)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_TOO_LONG_CODES = {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
_ANSWER_TOO_LONG = re.compile(r"max_(?:completion_)?tokens=\d+ cannot be greater than max_model_len", re.IGNORECASE)
"""vLLM: not the prompt is too long but what is asked for, whatever the prompt: no compaction helps."""
_ERROR_STATUS = re.compile(r"[45][0-9][0-9]")
_PASSING = {408, 409, 425}
_ADVICE = {
    404: "look at model.base_url (it mostly ends with /v1) and at model.model",
}


@dataclass(frozen=True)
class Place:
    """Who was asked for what: every message names it."""

    url: str
    model: str
    key_env: str | None = None
    """The variable that holds the key that was sent."""

    def __str__(self) -> str:
        return f"{self.url} (model {self.model})"


def of_status(place: Place, status: int, body: object, headers: Mapping[str, str]) -> Fault:
    """What an answer with this status means. `body` is the error object or text.

    Raises ContextOverflow for a request that is too long, ModelError (not retryable) for what only a person can mend.
    """
    said = _said(body)
    about = f"{place} answered {status}: {said or 'nothing more'}"
    if status == 429 and _field(body, "code") != "insufficient_quota":
        return Fault("busy", about, retry_after(headers))
    if _is_overflow(status, body, said):
        raise ContextOverflow(about, hint="the conversation must be compacted")
    if status >= 500 or status in _PASSING:
        return Fault("server", about, retry_after(headers))
    raise permanent(about, _advice(place, status, said))


def permanent(message: str, hint: str) -> ModelError:
    """A failure that the same request would meet again."""
    error = ModelError(message, hint=hint)
    error.retryable = False
    return error


def of_error_object(place: Place, error: object) -> Fault:
    """An error object in the body of a 200, as some gateways send it."""
    code = _field(error, "code") or _field(error, "status")
    status = int(code) if _ERROR_STATUS.fullmatch(code) else 500
    return of_status(place, status, error, {})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the server wishes: `Retry-After` in seconds or as a date, or `retry-after-ms`."""
    value = headers.get("retry-after", "").strip()
    millis = _number(headers.get("retry-after-ms", ""))
    seconds = _number(value) if millis is None else millis / 1000
    if seconds is None:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError, OSError):
            return None
    return min(max(seconds, 0.0), LONGEST_PAUSE_S)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if isnan(number) else number


def _is_overflow(status: int, body: object, said: str) -> bool:
    if status == 413:
        return True
    if status not in {400, 422, 500} or _ANSWER_TOO_LONG.search(said):
        return False
    names = {_field(body, key) for key in ("code", "type", "error_type")}
    too_long = bool(names & _TOO_LONG_CODES or _TOO_LONG.search(said))
    if status == 500:  # a prompt's text may stand in the trace of a server that broke: codes only
        return bool(names & _TOO_LONG_CODES)
    return too_long or _field(body, "param") == "input_tokens"


def _advice(place: Place, status: int, said: str) -> str:
    if status in {401, 403} and place.key_env is not None:
        return f"the server refused the value of {place.key_env}: is it the right key, and may it use this model?"
    if status in {401, 403}:
        return "no key was sent: name the environment variable that holds it in model.api_key_env"
    if _ANSWER_TOO_LONG.search(said):
        return "ask for shorter answers (max_tokens of the agent's sampling), or serve the model with a longer context"
    if status in _ADVICE:
        return _ADVICE[status]
    if status == 429:
        return "the account has no credit left"
    return "the server refuses this request: if it does not know a parameter, name that in model.omit"


def _said(body: object) -> str:
    """What the server says, without secrets, on one line, cut."""
    try:
        text = _message(body)
    except RecursionError:
        text = "(an error nested too deeply)"
    return " ".join(scrub(text).split())[:500].encode("utf-8", "replace").decode()


def _message(body: object) -> str:
    if isinstance(body, Mapping):
        for key in ("message", "error", "detail", "error_message"):
            if body.get(key):
                return _message(body[key])
    return body if isinstance(body, str) else "" if body is None else repr(body)


def _field(body: object, key: str) -> str:
    """A field of the error object, wherever the server put it."""
    if not isinstance(body, Mapping):
        return ""
    inner: Any = body.get("error")
    value = body.get(key)
    if value is None and isinstance(inner, Mapping):
        value = inner.get(key)
    return str(value) if isinstance(value, str | int | float) else ""
