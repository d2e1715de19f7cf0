from spanlib import Agenda, Booking


def titles(agenda):
    return [booking.title for booking in agenda.ranked()]


def test_equal_priority_by_start():
    assert titles(Agenda([Booking("all hands", 960, 990, 2), Booking("zero hour", 420, 450, 2)])) == ["zero hour", "all hands"]


def test_priority_first():
    assert titles(Agenda([Booking("a", 0, 10), Booking("b", 20, 30, 5), Booking("c", 40, 50, -1)])) == ["b", "a", "c"]


def test_title_last():
    agenda = Agenda([Booking("b", 0, 10, 1), Booking("a", 0, 20, 1), Booking("c", 0, 5, 1)], overlaps=True)
    assert titles(agenda) == ["a", "b", "c"]


def test_all_three():
    agenda = Agenda([Booking("x", 50, 60), Booking("y", 10, 20), Booking("w", 10, 30), Booking("v", 90, 95, 1)], overlaps=True)
    assert titles(agenda) == ["v", "w", "y", "x"]
