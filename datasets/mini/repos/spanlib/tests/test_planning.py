from datetime import date

import pytest

from spanlib import Agenda, Booking, Conflict, Span, SpanError, SpanSet, first_fit, free_slots, monthly, utilisation, weekly, yearly
from spanlib.recurrence import nth_weekday
from spanlib.slots import common_slots

DAY = Span(540, 1020)


def test_free_slots():
    busy = [Span(600, 660), Span(900, 1020)]
    assert free_slots(DAY, busy) == [Span(540, 600), Span(660, 900)]
    assert free_slots(DAY, busy, at_least=120) == [Span(660, 900)]


def test_free_slots_with_busy_time_outside():
    assert free_slots(DAY, [Span(0, 600), Span(800, 1200)]) == [Span(600, 800)]


def test_free_slots_keep_a_gap():
    assert free_slots(DAY, [Span(600, 660), Span(960, 1020)], gap=10) == [Span(540, 590), Span(670, 950)]


def test_first_fit():
    busy = [Span(540, 610), Span(640, 700), Span(1000, 1020)]
    assert first_fit(DAY, busy, 30) == Span(610, 640)
    assert first_fit(DAY, busy, 30, step=15) == Span(705, 735)
    assert first_fit(DAY, busy, 600) is None
    with pytest.raises(SpanError):
        first_fit(DAY, busy, 0)


def test_common_slots():
    calendars = [SpanSet([Span(540, 600)]), SpanSet([Span(590, 700), Span(900, 1020)])]
    assert common_slots(DAY, calendars) == [Span(700, 900)]


def test_utilisation():
    assert utilisation(Span(0, 100), [Span(0, 25), Span(90, 200)]) == 0.35
    assert utilisation(Span(5, 5), [Span(0, 10)]) == 0.0


def test_weekly():
    assert weekly(date(2024, 5, 1), 3) == [date(2024, 5, 1), date(2024, 5, 8), date(2024, 5, 15)]
    assert weekly(date(2024, 5, 1), 3, ["fr", "mo"]) == [date(2024, 5, 3), date(2024, 5, 6), date(2024, 5, 10)]
    assert weekly(date(2024, 5, 1), 2, every=2) == [date(2024, 5, 1), date(2024, 5, 15)]


def test_monthly():
    assert monthly(date(2024, 11, 15), 3) == [date(2024, 11, 15), date(2024, 12, 15), date(2025, 1, 15)]
    assert monthly(date(2023, 1, 31), 2) == [date(2023, 1, 31), date(2023, 2, 28)]
    assert monthly(date(2024, 1, 1), 0) == []


def test_yearly():
    assert yearly(date(2022, 3, 1), 3, every=2) == [date(2022, 3, 1), date(2024, 3, 1), date(2026, 3, 1)]


def test_nth_weekday():
    assert nth_weekday(2024, 5, "friday", 1) == date(2024, 5, 3)
    assert nth_weekday(2024, 5, "fr", -1) == date(2024, 5, 31)
    assert nth_weekday(2024, 2, "mo", 5) is None
    with pytest.raises(SpanError):
        nth_weekday(2024, 2, "xx", 1)


@pytest.fixture
def agenda():
    return Agenda([Booking("review", 600, 660, 1, ["team"]), Booking("lunch", 720, 780), Booking("call", 480, 500, 5, ["team", "urgent"])])


def test_agenda_is_in_order(agenda):
    assert [booking.title for booking in agenda] == ["call", "review", "lunch"]
    assert agenda.text().splitlines()[0] == "08:00-08:20 call"


def test_agenda_conflict(agenda):
    with pytest.raises(Conflict, match="demo overlaps review") as caught:
        agenda.add(Booking("demo", 650, 700))
    assert len(caught.value.others) == 1
    assert len(agenda) == 3
    agenda.overlaps = True
    agenda.add(Booking("demo", 650, 700))
    assert [booking.title for booking in agenda.at(655)] == ["review", "demo"]


def test_agenda_ranked(agenda):
    assert [booking.title for booking in agenda.ranked()] == ["call", "review", "lunch"]


def test_agenda_tags(agenda):
    assert [booking.title for booking in agenda.tagged("team")] == ["call", "review"]
    assert len(agenda.tagged()) == 3


def test_agenda_cancel(agenda):
    assert agenda.cancel("lunch") == 1
    assert agenda.cancel("lunch") == 0
    assert agenda.busy() == SpanSet([Span(480, 500), Span(600, 660)])


def test_agenda_move(agenda):
    assert agenda.move("lunch", 15).span == Span(735, 795)
    with pytest.raises(SpanError, match="0 bookings"):
        agenda.move("nothing", 1)
