"""Rounding times to a raster."""

from spanlib.errors import SpanError
from spanlib.span import Span

MODES = ("nearest", "down", "up")


def round_minutes(minutes, step, mode="nearest"):
    """`minutes` on the raster of `step`: `down`, `up`, or to the `nearest` point, halves upwards."""
    if step <= 0:
        raise SpanError("a step has to be positive")
    if mode == "down":
        return minutes // step * step
    if mode == "up":
        return -(-minutes // step) * step
    if mode == "nearest":
        return (2 * minutes + step) // (2 * step) * step
    raise SpanError(f"unknown mode {mode!r}, known: {', '.join(MODES)}")


def snap(span, step, mode="nearest"):
    """A span with both ends on the raster; `outward` makes it longer, never shorter."""
    if mode == "outward":
        return Span(round_minutes(span.start, step, "down"), round_minutes(span.end, step, "up"))
    return Span(round_minutes(span.start, step, mode), round_minutes(span.end, step, mode))


def billable(minutes, step, minimum=0):
    """Minutes to bill: at least `minimum`, rounded up to the raster; nothing for nothing."""
    if minutes <= 0:
        return 0
    return round_minutes(max(minutes, minimum), step, "up")
