"""One half-open span of numbers (minutes, as a rule)."""

from spanlib.errors import SpanError


class Span:
    """From `start`, included, to `end`, excluded."""

    __slots__ = ("end", "start")

    def __init__(self, start, end):
        if end < start:
            raise SpanError(f"a span cannot end before it starts: {start}..{end}")
        self.start = start
        self.end = end

    def __repr__(self):
        return f"Span({self.start}, {self.end})"

    def __eq__(self, other):
        return isinstance(other, Span) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self):
        return hash((self.start, self.end))

    def __lt__(self, other):
        return (self.start, self.end) < (other.start, other.end)

    def __bool__(self):
        return self.end > self.start

    def __contains__(self, point):
        return self.start <= point < self.end

    @property
    def length(self):
        return self.end - self.start

    def overlaps(self, other):
        """Whether the two share a point. Spans that only touch do not."""
        return self.start < other.end and other.start < self.end

    def touches(self, other):
        """Whether the two overlap or meet end to start, so that they can be joined."""
        return self.start <= other.end and other.start <= self.end

    def covers(self, other):
        """Whether `other` lies wholly inside."""
        return self.start <= other.start and other.end <= self.end

    def shift(self, by):
        return Span(self.start + by, self.end + by)

    def grow(self, before, after=None):
        """Longer at both ends: by `before`, and by `after` or the same."""
        if after is None:
            after = before
        return Span(self.start - before, self.end + after)

    def intersect(self, other):
        """The shared part, or None."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Span(start, end) if start < end else None

    def minus(self, other):
        """What is left when `other` is cut out: none, one or two spans."""
        if not self.overlaps(other):
            return [self]
        parts = [Span(self.start, max(self.start, other.start)), Span(min(self.end, other.end), self.end)]
        return [part for part in parts if part]

    def split(self, step):
        """Pieces of length `step`; the last one may be shorter."""
        if step <= 0:
            raise SpanError("a step has to be positive")
        pieces, start = [], self.start
        while start < self.end:
            pieces.append(Span(start, min(start + step, self.end)))
            start += step
        return pieces
