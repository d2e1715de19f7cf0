"""Free time between busy time."""

from spanlib.errors import SpanError
from spanlib.span import Span
from spanlib.spanset import SpanSet


def free_slots(window, busy, at_least=0, gap=0):
    """Free spans inside `window`, none shorter than `at_least`, each `gap` away from what is busy."""
    slots = []
    cursor = window.start
    for span in SpanSet(one.grow(gap) for one in busy):
        if span.end <= window.start or span.start >= window.end:
            continue
        if span.start > cursor:
            slots.append(Span(cursor, span.start))
        cursor = max(cursor, span.end)
    if cursor < window.end:
        slots.append(Span(cursor, window.end))
    return [slot for slot in slots if slot.length >= at_least]


def first_fit(window, busy, length, step=1):
    """The earliest free span of `length` that starts on a multiple of `step`; None when there is none."""
    if length <= 0:
        raise SpanError("a length has to be positive")
    for slot in free_slots(window, busy, at_least=length):
        start = -(-slot.start // step) * step
        if start + length <= slot.end:
            return Span(start, start + length)
    return None


def common_slots(window, calendars, at_least=0):
    """Free spans shared by several people; `calendars` holds the busy spans of each."""
    busy = SpanSet()
    for one in calendars:
        busy = busy.union(one)
    return free_slots(window, busy, at_least)


def utilisation(window, busy):
    """The busy part of a window, from 0.0 to 1.0; an empty window is not used at all."""
    if not window:
        return 0.0
    inside = SpanSet([window]).intersect(SpanSet(busy))
    return inside.length / window.length
