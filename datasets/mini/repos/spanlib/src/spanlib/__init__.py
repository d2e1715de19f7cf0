"""Spans of time and what can be done with them."""

from spanlib.agenda import Agenda, Booking
from spanlib.clock import format_time, parse_duration, parse_time
from spanlib.errors import Conflict, SpanError, TimeFormatError
from spanlib.recurrence import monthly, weekly, yearly
from spanlib.rounding import round_minutes, snap
from spanlib.slots import first_fit, free_slots, utilisation
from spanlib.span import Span
from spanlib.spanset import SpanSet

__all__ = [
    "Agenda",
    "Booking",
    "Conflict",
    "Span",
    "SpanError",
    "SpanSet",
    "TimeFormatError",
    "first_fit",
    "format_time",
    "free_slots",
    "monthly",
    "parse_duration",
    "parse_time",
    "round_minutes",
    "snap",
    "utilisation",
    "weekly",
    "yearly",
]
