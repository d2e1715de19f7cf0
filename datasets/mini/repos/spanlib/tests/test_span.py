import pytest

from spanlib import Span, SpanError, SpanSet


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [((0, 10), (5, 15), True), ((0, 10), (20, 30), False), ((0, 10), (2, 4), True), ((5, 6), (0, 10), True)],
)
def test_overlaps(one, two, expected):
    assert Span(*one).overlaps(Span(*two)) is expected


def test_contains_and_length():
    span = Span(5, 8)
    assert 5 in span
    assert 8 not in span
    assert span.length == 3
    assert not Span(3, 3)


def test_backwards():
    with pytest.raises(SpanError, match="before it starts"):
        Span(2, 1)


def test_touches_and_covers():
    assert Span(0, 5).touches(Span(5, 9))
    assert not Span(0, 5).touches(Span(6, 9))
    assert Span(0, 9).covers(Span(0, 9))
    assert not Span(0, 9).covers(Span(5, 10))


def test_shift_and_grow():
    assert Span(0, 5).shift(3) == Span(3, 8)
    assert Span(10, 20).grow(5) == Span(5, 25)
    assert Span(10, 20).grow(5, 1) == Span(5, 21)


def test_intersect():
    assert Span(0, 10).intersect(Span(5, 15)) == Span(5, 10)
    assert Span(0, 5).intersect(Span(7, 9)) is None


@pytest.mark.parametrize(
    ("cut", "left"),
    [((3, 5), [(0, 3), (5, 10)]), ((0, 5), [(5, 10)]), ((5, 12), [(0, 5)]), ((0, 10), []), ((20, 30), [(0, 10)])],
)
def test_minus(cut, left):
    assert Span(0, 10).minus(Span(*cut)) == [Span(*part) for part in left]


def test_split():
    assert Span(0, 7).split(3) == [Span(0, 3), Span(3, 6), Span(6, 7)]
    with pytest.raises(SpanError):
        Span(0, 7).split(0)


def test_set_joins():
    assert list(SpanSet([Span(5, 9), Span(0, 3), Span(8, 12), Span(4, 4)])) == [Span(0, 3), Span(5, 12)]


def test_set_operations():
    one, two = SpanSet([Span(0, 10), Span(20, 30)]), SpanSet([Span(5, 25)])
    assert list(one.union(two)) == [Span(0, 30)]
    assert list(one.minus(two)) == [Span(0, 5), Span(25, 30)]
    assert list(one.intersect(two)) == [Span(5, 10), Span(20, 25)]
    assert one.gaps() == [Span(10, 20)]
    assert one.length == 20


def test_set_membership_and_bounds():
    spans = SpanSet([Span(0, 10), Span(20, 30)])
    assert [point in spans for point in (-1, 0, 9, 15, 29)] == [False, True, True, False, True]
    assert spans.bounds == Span(0, 30)
    assert SpanSet().bounds is None
