import pytest

import slateconf


@pytest.mark.parametrize(("text", "value"), [("0X1F", 31), ("-0XFF", -255), ("0B101", 5), ("0O17", 15), ("0x1f", 31)])
def test_prefixes_in_either_case(text, value):
    assert slateconf.loads(f"n = {text}").get_int("n") == value


@pytest.mark.parametrize("text", ["0X", "X1F", "1F", "0Z1"])
def test_what_is_no_integer(text):
    with pytest.raises(slateconf.ConfigError):
        slateconf.loads(f"n = {text}").get_int("n")


def test_decimal():
    assert slateconf.loads("n = 1_000").get_int("n") == 1000
