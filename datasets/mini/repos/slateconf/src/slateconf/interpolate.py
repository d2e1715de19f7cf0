"""References: `${other.key}`, with `${key:-fallback}` and `$$` for a dollar sign."""

import re

from slateconf import keys
from slateconf.errors import InterpolationError, MissingKey
from slateconf.values import unquote

REFERENCE = re.compile(r"\$(?:(?P<escape>\$)|\{(?P<key>[^}:]+)(?::-(?P<fallback>[^}]*))?\})")
DEPTH = 20


def expand(data, text, section="", seen=()):
    """The text with its references replaced. A key is looked for in `section` first, then from the root."""

    def replace(match):
        if match["escape"]:
            return "$"
        key, fallback = match["key"].strip(), match["fallback"]
        if key in seen or len(seen) >= DEPTH:
            raise InterpolationError("circular reference: " + " -> ".join((*seen, key)))
        try:
            value = find(data, key, section)
        except MissingKey:
            if fallback is None:
                raise InterpolationError(f"unknown key in reference: {key}") from None
            return fallback
        if isinstance(value, dict):
            raise InterpolationError(f"{key} is a section, not a value")
        return expand(data, unquote(value), section, (*seen, key))

    return REFERENCE.sub(replace, text)


def find(data, key, section):
    if section:
        try:
            return keys.lookup(data, f"{section}.{key}")
        except MissingKey:
            pass
    return keys.lookup(data, key)
