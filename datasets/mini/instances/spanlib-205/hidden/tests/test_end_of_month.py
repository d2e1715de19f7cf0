from datetime import date

from spanlib import monthly, yearly


def test_back_to_the_31st():
    assert [day.day for day in monthly(date(2023, 1, 31), 12)] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def test_back_to_the_30th():
    assert monthly(date(2023, 12, 30), 4) == [date(2023, 12, 30), date(2024, 1, 30), date(2024, 2, 29), date(2024, 3, 30)]


def test_every_third_month():
    assert monthly(date(2023, 8, 31), 4, every=3)[-1] == date(2024, 5, 31)


def test_leap_day():
    assert [day.day for day in yearly(date(2020, 2, 29), 5)] == [29, 28, 28, 28, 29]


def test_plain_days():
    assert monthly(date(2023, 5, 10), 3) == [date(2023, 5, 10), date(2023, 6, 10), date(2023, 7, 10)]
    assert monthly(date(2023, 5, 10), 0) == []
