import pytest

from spanlib.clock import parse_time
from spanlib.errors import TimeFormatError


@pytest.mark.parametrize(("text", "minutes"), [("9:59", 599), ("23.59", 1439), ("11:59 pm", 1439), ("0:59", 59)])
def test_the_last_minute_of_an_hour(text, minutes):
    assert parse_time(text) == minutes


@pytest.mark.parametrize("text", ["9:60", "24:01", "9:99", "25"])
def test_times_that_do_not_exist(text):
    with pytest.raises(TimeFormatError):
        parse_time(text)
