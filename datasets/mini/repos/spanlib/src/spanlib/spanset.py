"""A set of points made of spans, kept sorted and joined."""

from bisect import bisect_right

from spanlib.span import Span


class SpanSet:
    """Immutable. Spans that overlap or touch are joined, empty ones left out."""

    def __init__(self, spans=()):
        self._spans = _joined(spans)

    def __iter__(self):
        return iter(self._spans)

    def __len__(self):
        return len(self._spans)

    def __eq__(self, other):
        return isinstance(other, SpanSet) and self._spans == other._spans

    def __hash__(self):
        return hash(tuple(self._spans))

    def __repr__(self):
        return f"SpanSet({self._spans})"

    def __contains__(self, point):
        index = bisect_right([span.start for span in self._spans], point) - 1
        return index >= 0 and point in self._spans[index]

    @property
    def length(self):
        return sum(span.length for span in self._spans)

    @property
    def bounds(self):
        """From the first start to the last end; None for an empty set."""
        return Span(self._spans[0].start, self._spans[-1].end) if self._spans else None

    def union(self, other):
        return SpanSet([*self._spans, *other])

    def minus(self, other):
        left = list(self._spans)
        for cut in other:
            left = [part for span in left for part in span.minus(cut)]
        return SpanSet(left)

    def intersect(self, other):
        shared = (one.intersect(two) for one in self._spans for two in other)
        return SpanSet([span for span in shared if span])

    def gaps(self):
        """The spans between the spans."""
        return [Span(one.end, two.start) for one, two in zip(self._spans, self._spans[1:])]


def _joined(spans):
    result = []
    for span in sorted(span for span in spans if span):
        if result and result[-1].touches(span):
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result
