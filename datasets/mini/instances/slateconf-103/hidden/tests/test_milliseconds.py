import pytest

from slateconf.errors import ValueProblem
from slateconf.values import to_duration


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("1s500ms", 1.5), ("2 MS", 0.002), ("1m1ms", 60.001)])
def test_milliseconds(text, seconds):
    assert to_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "seconds"), [("2m", 120.0), ("3s", 3.0), ("1m5s", 65.0), ("1d 2h", 93600.0)])
def test_other_units_stay(text, seconds):
    assert to_duration(text) == seconds


@pytest.mark.parametrize("text", ["5sm", "ms", "5mss", "5 m s"])
def test_nonsense(text):
    with pytest.raises(ValueProblem):
        to_duration(text)
