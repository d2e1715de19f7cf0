"""What a user may say about a server, checked before anything is sent."""

import difflib
import json
import os
import random
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from uchide.errors import ConfigError
from uchide.records import Usage
from uchide.redact import has_shape_of_secret, secret_values

NO_KEY = "EMPTY"
"""Sent to servers that want no key; the client insists on one."""


class Section(BaseModel):
    """Unknown keys and loose types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Of prompt tokens that the server had in its cache; by default the same as `input`."""

    def of(self, usage: Usage) -> float:
        """What these tokens cost."""
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        rate = self.input if self.cached is None else self.cached
        fresh = usage.prompt_tokens - cached
        return (fresh * self.input + cached * rate + usage.completion_tokens * self.output) / 1e6


class Retry(Section):
    """How long a failing server is put up with."""

    attempts: int = Field(default=6, ge=1)
    """Tries of one request whose answer is bad (5xx, lost, aborted), and of a server that has never answered."""
    seconds: float = Field(default=900.0, ge=0)
    """How long a server that once answered may be down, or refuse with 429, before requests fail."""
    base_s: float = Field(default=1.0, gt=0)
    """First pause; doubled with every failure in a row, with a random part."""
    max_s: float = Field(default=60.0, gt=0)
    """Longest pause that we choose ourselves; `Retry-After` may ask for more."""

    def pause_s(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row, from 0."""
        return min(self.max_s, self.base_s * 2.0 ** min(failures, 30)) * random.uniform(0.5, 1.0)


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class OpenAIConfig(Section):
    """Options of the model in an experiment file."""

    base_url: Annotated[tuple[str, ...], BeforeValidator(_several)] = Field(min_length=1)
    """Where the API begins, mostly `http://HOST:PORT/v1`; several servers of the same model as a list."""
    model: str = Field(min_length=1)
    """The name that the server knows it by."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None: the server wants none."""
    timeout_s: float = Field(default=3600.0, gt=0)
    """Longest wait for one answer."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    context_tokens: int | None = Field(default=None, ge=256)
    """Tokens that a prompt and its answer may have together; None: what the server says, if it does."""
    concurrency: int = Field(default=64, ge=1)
    """Requests of one job in flight per server; fewer after a 429, more again with every success."""
    price: Price | None = None
    """None: the cost is unknown."""
    gpus: float | None = Field(default=None, ge=0)
    """GPUs of each server, for GPU-hours; None: unknown."""
    retry: Retry = Retry()
    omit: Annotated[tuple[Literal["seed", "temperature", "top_p", "max_tokens"], ...], BeforeValidator(_frozen)] = ()
    """Sampling parameters that this server refuses: they are not sent."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, as the server documents them."""

    @field_validator("base_url")
    @classmethod
    def _addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError("an address begins with http:// or https://, and mostly ends with /v1")
            if has_shape_of_secret(url):
                raise ValueError("an address must not hold a password: use api_key_env")
            if not url.isascii() or not url.isprintable() or " " in url:
                raise ValueError("an address is made of ASCII letters, digits and signs, without spaces")
            if parts.port == 0:  # reading it refuses what is no number, or above 65535
                raise ValueError("port 0 is no server's")
        plain = tuple(url.rstrip("/") for url in urls)
        if len(set(plain)) < len(plain):
            raise ValueError("the same server is named twice")
        return plain

    @field_validator("api_key_env")
    @classmethod
    def _secret_by_name(cls, name: str | None) -> str | None:
        if name is not None and not secret_values({name: "0" * 20}):
            raise ValueError(
                "the variable's name must say that it is secret (like MY_SERVER_API_KEY): "
                "only then is its value kept out of every file"
            )
        return name

    @field_validator("extra_body")
    @classmethod
    def _can_be_sent(cls, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError("it cannot be sent as JSON (a date, for example, needs quotes)") from error
        return fields

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        """The options of an experiment file. Raises ConfigError."""
        if "api_key" in options:
            raise ConfigError(
                "model.api_key: a key does not belong into a file",
                hint="put it into an environment variable and name that: api_key_env: MY_SERVER_API_KEY",
            )
        try:
            return cls.model_validate(dict(options))
        except ValidationError as error:
            raise _explained(error, cls) from error

    def key(self) -> str:
        """The key to send. Raises ConfigError when its variable is not set."""
        if self.api_key_env is None:
            return NO_KEY
        value = os.environ.get(self.api_key_env, "").strip()
        if not value:
            raise ConfigError(
                f"model.api_key_env: the environment variable {self.api_key_env} is not set",
                hint=f"export {self.api_key_env}=... (it is read where the jobs run), or take api_key_env out",
            )
        if not value.isascii() or not value.isprintable():
            raise ConfigError(
                f"model.api_key_env: the value of {self.api_key_env} has other signs than ASCII ones",
                hint=f"export {self.api_key_env} again, with the key alone",
            )
        return value

    def cost(self, usage: Usage) -> float | None:
        """US dollars; None when the price is unknown."""
        return None if self.price is None else self.price.of(usage)


def _explained(error: ValidationError, model: type[OpenAIConfig]) -> ConfigError:
    faults = error.errors()
    fault = next((item for item in faults if item["type"] == "extra_forbidden"), faults[0])
    at = ".".join(map(str, fault["loc"]))
    inside: dict[str, type[Section]] = {"price": Price, "retry": Retry}
    section = inside.get(str(fault["loc"][0]), model) if len(fault["loc"]) > 1 else model
    known = list(section.model_fields)
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}? " if near else ""
        return ConfigError(f"model.{at}: unknown option of openai", hint=f"{guess}options: {', '.join(known)}")
    if fault["type"] == "missing":
        return ConfigError(f"model.{at}: openai needs it", hint="see docs/models.md")
    return ConfigError(f"model.{at}: {fault['msg'].removeprefix('Value error, ')}", hint="see docs/models.md")
