import pytest

from spanlib import Agenda, Booking, Conflict, Span


@pytest.fixture
def agenda():
    return Agenda([Booking("a", 600, 660), Booking("b", 700, 760), Booking("c", 800, 810)])


def test_stays_where_it_was(agenda):
    with pytest.raises(Conflict):
        agenda.move("a", 60)
    assert [booking.span for booking in agenda] == [Span(600, 660), Span(700, 760), Span(800, 810)]


def test_the_conflict_names_the_other(agenda):
    with pytest.raises(Conflict, match="a overlaps b") as caught:
        agenda.move("a", 60)
    assert [other.title for other in caught.value.others] == ["b"]


def test_can_be_moved_afterwards(agenda):
    with pytest.raises(Conflict):
        agenda.move("a", 60)
    assert agenda.move("a", 10).span == Span(610, 670)


def test_free_place(agenda):
    assert agenda.move("c", 100).span == Span(900, 910)


def test_overlaps_allowed(agenda):
    agenda.overlaps = True
    assert agenda.move("a", 60).span == Span(660, 720)
