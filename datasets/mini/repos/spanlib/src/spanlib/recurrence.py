"""Repeating dates."""

import calendar
from datetime import date, timedelta

from spanlib.errors import SpanError

WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")


def weekly(start, count, days=None, every=1):
    """`count` dates from `start` on, on the given weekdays (`["mo", "fr"]`; by default that of `start`)."""
    _check(count, every)
    wanted = sorted(_weekday(day) for day in days) if days else [start.weekday()]
    monday = start - timedelta(days=start.weekday())
    found = []
    while len(found) < count:
        for weekday in wanted:
            day = monday + timedelta(days=weekday)
            if day >= start and len(found) < count:
                found.append(day)
        monday += timedelta(weeks=every)
    return found


def monthly(start, count, every=1):
    """`count` dates on the day of the month of `start`, or on the last day of months that are too short."""
    _check(count, every)
    return [add_months(start, number * every) for number in range(count)]


def yearly(start, count, every=1):
    """`count` dates a year apart; 29 February becomes 28 in common years."""
    return monthly(start, count, every * 12)


def add_months(day, months):
    """The same day, months later, or the last day of that month."""
    total = day.year * 12 + day.month - 1 + months
    year, month = divmod(total, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def nth_weekday(year, month, weekday, nth):
    """The nth (from 1) weekday of a month; -1 is the last. None when the month has fewer."""
    number = _weekday(weekday)
    days = [day for day in calendar.Calendar().itermonthdates(year, month) if day.month == month and day.weekday() == number]
    index = nth - 1 if nth > 0 else nth
    return days[index] if -len(days) <= index < len(days) else None


def _weekday(name):
    try:
        return WEEKDAYS.index(name[:2].lower())
    except ValueError:
        raise SpanError(f"not a weekday: {name!r}") from None


def _check(count, every):
    if count < 0 or every < 1:
        raise SpanError("count and every have to be positive")
