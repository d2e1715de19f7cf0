from datetime import date

from spanlib.recurrence import nth_weekday


def test_the_fifth_from_the_end():
    assert nth_weekday(2024, 7, "mo", -5) == date(2024, 7, 1)


def test_the_fourth_from_the_end_of_four():
    assert nth_weekday(2024, 2, "mo", -4) == date(2024, 2, 5)


def test_a_fifth_that_does_not_exist():
    assert nth_weekday(2024, 2, "mo", 5) is None
    assert nth_weekday(2024, 2, "mo", -5) is None


def test_last_and_first():
    assert nth_weekday(2024, 7, "mo", -1) == date(2024, 7, 29)
    assert nth_weekday(2024, 7, "mo", 1) == date(2024, 7, 1)
