import pytest

from spanlib import Span, round_minutes, snap


@pytest.mark.parametrize(("minutes", "expected"), [(5, 10), (15, 20), (25, 30), (35, 40), (45, 50)])
def test_halves_go_up(minutes, expected):
    assert round_minutes(minutes, 10) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(-25, -20), (-27, -30), (-23, -20), (-5, 0), (-15, -10), (-6, -10)])
def test_negative(minutes, expected):
    assert round_minutes(minutes, 10) == expected


@pytest.mark.parametrize(("minutes", "expected"), [(0, 0), (7, 0), (8, 15), (22, 15), (23, 30)])
def test_odd_step(minutes, expected):
    assert round_minutes(minutes, 15) == expected


def test_result_is_whole():
    assert isinstance(round_minutes(25, 10), int)
    assert round_minutes(10**17 + 5, 10) == 10**17 + 10


def test_snap():
    assert snap(Span(25, 45), 10) == Span(30, 50)
