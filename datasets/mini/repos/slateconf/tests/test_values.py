import pytest

from slateconf import values
from slateconf.errors import ValueProblem


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("-3", -3), ("0x1F", 31), ("0b101", 5), ("1_000", 1000)])
def test_int(text, number):
    assert values.to_int(text) == number


@pytest.mark.parametrize("text", ["", "1.5", "twelve", "0xZZ"])
def test_not_int(text):
    with pytest.raises(ValueProblem, match="not an integer"):
        values.to_int(text)


@pytest.mark.parametrize("text", ["true", "Yes", "ON", "1"])
def test_true(text):
    assert values.to_bool(text) is True


@pytest.mark.parametrize("text", ["false", "No", "off", "0"])
def test_false(text):
    assert values.to_bool(text) is False


def test_not_bool():
    with pytest.raises(ValueProblem):
        values.to_bool("maybe")


def test_list():
    assert values.to_list("a, b,c") == ["a", "b", "c"]
    assert values.to_list('"a, b", c') == ["a, b", "c"]
    assert values.to_list("a,") == ["a"]
    assert values.to_list("") == []


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("1.5s", 1.5), ("2m", 120.0), ("1h30m", 5400.0), ("1d", 86400.0)])
def test_duration(text, seconds):
    assert values.to_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "h"])
def test_not_duration(text):
    with pytest.raises(ValueProblem):
        values.to_duration(text)


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("64k", 65536), ("1.5 MB", 1572864), ("2G", 2147483648)])
def test_size(text, size):
    assert values.to_size(text) == size


def test_not_size():
    with pytest.raises(ValueProblem):
        values.to_size("5 miles")


def test_unquote():
    assert values.unquote('"a"') == "a"
    assert values.unquote("'a") == "'a"
    assert values.unquote('"') == '"'
