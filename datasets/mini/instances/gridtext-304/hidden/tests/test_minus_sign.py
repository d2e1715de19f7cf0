import pytest

from gridtext import Table, render
from gridtext.cells import to_text


@pytest.mark.parametrize(("value", "places", "text"), [(-0.5, 2, "-0.50"), (-0.01, 2, "-0.01"), (-0.94, 0, "-1"), (-1.5, 1, "-1.5")])
def test_minus_stays(value, places, text):
    assert to_text(value, places) == text


@pytest.mark.parametrize(("value", "places", "text"), [(-0.001, 2, "0.00"), (-0.0, 1, "0.0"), (-0.4, 0, "0")])
def test_no_minus_zero(value, places, text):
    assert to_text(value, places) == text


@pytest.mark.parametrize(("value", "places", "text"), [(0.5, 2, "0.50"), (0.0, 2, "0.00"), (12.345, 1, "12.3")])
def test_positive(value, places, text):
    assert to_text(value, places) == text


def test_render():
    assert render(Table(["v"], [[-0.25], [-0.001]]), places=2).splitlines() == ["    v", "-0.25", " 0.00"]
