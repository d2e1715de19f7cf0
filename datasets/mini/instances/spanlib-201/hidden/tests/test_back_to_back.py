import pytest

from spanlib import Agenda, Booking, Conflict, Span


def test_after():
    agenda = Agenda([Booking("a", 600, 660)])
    agenda.add(Booking("b", 660, 720))
    assert len(agenda) == 2


def test_before():
    agenda = Agenda([Booking("a", 600, 660)])
    agenda.add(Booking("b", 540, 600))
    assert [booking.title for booking in agenda] == ["b", "a"]


def test_spans_that_meet():
    assert not Span(0, 5).overlaps(Span(5, 9))
    assert not Span(5, 9).overlaps(Span(0, 5))


def test_one_minute_shared():
    agenda = Agenda([Booking("a", 600, 660)])
    for start, end in ((540, 601), (659, 700)):
        with pytest.raises(Conflict):
            agenda.add(Booking("b", start, end))


def test_meeting_spans_still_join():
    assert Span(0, 5).touches(Span(5, 9))
