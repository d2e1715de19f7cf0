import pytest

from gridtext import Table, render


@pytest.mark.parametrize(
    ("cell", "shown"),
    [("a|b", "a\\|b"), ("a\\b", "a\\\\b"), ("a\\|b", "a\\\\\\|b"), ("||", "\\|\\|"), ("a\nb|", "a<br>b\\|"), ("plain", "plain")],
)
def test_cell(cell, shown):
    assert render(Table(["x"], [[cell]]), "markdown").splitlines()[2] == f"| {shown} |"


def test_header():
    assert render(Table(["a|b"], []), "markdown").splitlines()[0] == "| a\\|b |"


def test_other_styles_leave_it():
    assert render(Table(["x"], [["a|b"]])).splitlines()[1] == "a|b"
