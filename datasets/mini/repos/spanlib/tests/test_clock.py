import pytest

from spanlib import TimeFormatError, format_time, parse_duration, parse_time, round_minutes, snap
from spanlib.clock import format_duration
from spanlib.rounding import billable
from spanlib.span import Span


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("9", 540), ("9:30", 570), ("09.05", 545), ("9am", 540), ("5:30 PM", 1050), ("11 p.m.", 1380), ("noon", 720), ("24:00", 1440)],
)
def test_parse_time(text, minutes):
    assert parse_time(text) == minutes


@pytest.mark.parametrize("text", ["", "9:3", "25", "9:60", "13pm", "0am", "24:01", "nine"])
def test_not_a_time(text):
    with pytest.raises(TimeFormatError):
        parse_time(text)


@pytest.mark.parametrize(("text", "minutes"), [("90", 90), ("1h30m", 90), ("1.5 h", 90), ("2d 4h", 3120), ("45 min", 45), ("1w", 10080)])
def test_parse_duration(text, minutes):
    assert parse_duration(text) == minutes


@pytest.mark.parametrize("text", ["", "h", "1 hour", "1h-2m", "5x"])
def test_not_a_duration(text):
    with pytest.raises(TimeFormatError):
        parse_duration(text)


@pytest.mark.parametrize(("minutes", "shown"), [(0, "00:00"), (570, "09:30"), (1439, "23:59"), (1500, "01:00 +1")])
def test_format_time(minutes, shown):
    assert format_time(minutes) == shown


@pytest.mark.parametrize(("minutes", "shown"), [(570, "9:30 am"), (1050, "5:30 pm"), (0, "12:00 am"), (720, "12:00 pm")])
def test_format_twelve(minutes, shown):
    assert format_time(minutes, twelve=True) == shown


@pytest.mark.parametrize(("minutes", "shown"), [(0, "0m"), (90, "1h30m"), (2880, "2d"), (-45, "-45m")])
def test_format_duration(minutes, shown):
    assert format_duration(minutes) == shown


@pytest.mark.parametrize(("mode", "expected"), [("down", 60), ("up", 75), ("nearest", 60)])
def test_round(mode, expected):
    assert round_minutes(64, 15, mode) == expected


def test_round_up_from_far():
    assert round_minutes(70, 15) == 75
    assert round_minutes(75, 15) == 75


def test_round_refuses():
    with pytest.raises(ValueError, match="positive"):
        round_minutes(5, 0)
    with pytest.raises(ValueError, match="unknown mode"):
        round_minutes(5, 5, "sideways")


def test_snap():
    assert snap(Span(64, 83), 15) == Span(60, 90)
    assert snap(Span(64, 76), 15, "outward") == Span(60, 90)


def test_billable():
    assert billable(0, 15, 30) == 0
    assert billable(5, 15, 30) == 30
    assert billable(31, 15, 30) == 45
