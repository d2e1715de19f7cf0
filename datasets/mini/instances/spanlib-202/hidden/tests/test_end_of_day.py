from spanlib import Span, SpanSet, first_fit, free_slots
from spanlib.slots import common_slots

DAY = Span(540, 1020)


def test_after_the_last_meeting():
    assert free_slots(DAY, [Span(600, 660)]) == [Span(540, 600), Span(660, 1020)]


def test_nothing_busy():
    assert free_slots(DAY, []) == [DAY]
    assert free_slots(DAY, [], at_least=481) == []


def test_busy_to_the_end():
    assert free_slots(DAY, [Span(600, 1020)]) == [Span(540, 600)]
    assert free_slots(DAY, [Span(600, 2000)]) == [Span(540, 600)]


def test_busy_time_outside_only():
    assert free_slots(DAY, [Span(0, 500), Span(1100, 1200)]) == [DAY]


def test_empty_window():
    assert free_slots(Span(5, 5), []) == []


def test_first_fit_in_the_evening():
    assert first_fit(DAY, [Span(540, 900)], 60) == Span(900, 960)


def test_common_slots():
    assert common_slots(DAY, [SpanSet([Span(540, 700)]), SpanSet([Span(600, 900)])]) == [Span(900, 1020)]
