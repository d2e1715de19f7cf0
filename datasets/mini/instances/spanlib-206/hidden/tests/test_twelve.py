import pytest

from spanlib import TimeFormatError, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "minutes"), [("12pm", 720), ("12:30 pm", 750), ("12.59 p.m.", 779), ("12am", 0), ("12:15 a.m.", 15), ("12", 720)]
)
def test_twelve(text, minutes):
    assert parse_time(text) == minutes


@pytest.mark.parametrize(("text", "minutes"), [("1am", 60), ("11:59am", 719), ("1pm", 780), ("11:59pm", 1439)])
def test_others(text, minutes):
    assert parse_time(text) == minutes


@pytest.mark.parametrize("text", ["13am", "0pm", "12:60am"])
def test_nonsense(text):
    with pytest.raises(TimeFormatError):
        parse_time(text)


def test_round_trip():
    for minutes in range(0, 1440, 7):
        assert parse_time(format_time(minutes, twelve=True)) == minutes
