"""Bookings of one day, without overlaps unless allowed."""

from spanlib.clock import format_time
from spanlib.errors import Conflict, SpanError
from spanlib.span import Span
from spanlib.spanset import SpanSet


class Booking:
    """A titled span. A higher priority comes first where bookings are ranked."""

    def __init__(self, title, start, end, priority=0, tags=()):
        self.title = title
        self.span = Span(start, end)
        self.priority = priority
        self.tags = frozenset(tags)

    def __repr__(self):
        return f"Booking({self.title!r}, {self.span.start}, {self.span.end})"

    def label(self):
        return f"{format_time(self.span.start)}-{format_time(self.span.end)} {self.title}"


class Agenda:
    """Bookings in the order of their start."""

    def __init__(self, bookings=(), overlaps=False):
        self.overlaps = overlaps
        self._bookings = []
        for booking in bookings:
            self.add(booking)

    def __iter__(self):
        return iter(sorted(self._bookings, key=lambda booking: booking.span.start))

    def __len__(self):
        return len(self._bookings)

    def conflicts(self, booking):
        """Bookings that overlap a new one."""
        return [other for other in self if other is not booking and other.span.overlaps(booking.span)]

    def add(self, booking):
        """Add a booking. Raises Conflict unless overlaps are allowed."""
        others = [] if self.overlaps else self.conflicts(booking)
        if others:
            raise Conflict(booking, others)
        self._bookings.append(booking)
        return booking

    def cancel(self, title):
        """Remove all bookings with that title and return how many there were."""
        kept = [booking for booking in self._bookings if booking.title != title]
        removed = len(self._bookings) - len(kept)
        self._bookings = kept
        return removed

    def busy(self):
        return SpanSet(booking.span for booking in self._bookings)

    def at(self, minute):
        """What is on at a minute."""
        return [booking for booking in self if minute in booking.span]

    def ranked(self):
        """By priority, highest first; equal ones by start, then title."""
        return sorted(self._bookings, key=lambda booking: (-booking.priority, booking.span.start, booking.title))

    def tagged(self, *tags):
        """Bookings that have all of the tags; without any, all bookings."""
        wanted = frozenset(tags)
        return [booking for booking in self if wanted <= booking.tags]

    def move(self, title, by):
        """Move the one booking of a title. It stays where it was when the new place is taken."""
        matching = [booking for booking in self._bookings if booking.title == title]
        if len(matching) != 1:
            raise SpanError(f"{len(matching)} bookings are called {title!r}")
        booking, old = matching[0], matching[0].span
        booking.span = old.shift(by)
        others = [] if self.overlaps else self.conflicts(booking)
        if others:
            booking.span = old
            raise Conflict(booking, others)
        return booking

    def text(self):
        return "\n".join(booking.label() for booking in self)
