import pytest

import slateconf
from slateconf import InterpolationError


def test_two_keys():
    with pytest.raises(InterpolationError, match="circular reference"):
        slateconf.loads("a = ${b}\nb = ${a}").get("a")


def test_the_chain_is_named():
    with pytest.raises(InterpolationError, match=r"circular reference: b -> c -> d -> b$"):
        slateconf.loads("a = ${b}\nb = ${c}\nc = ${d}\nd = ${b}").get("a")


def test_too_deep():
    text = "\n".join(f"k{n} = ${{k{n + 1}}}" for n in range(40)) + "\nk40 = end"
    with pytest.raises(InterpolationError):
        slateconf.loads(text).get("k0")


def test_long_but_straight():
    text = "\n".join(f"k{n} = ${{k{n + 1}}}" for n in range(15)) + "\nk15 = end"
    assert slateconf.loads(text).get("k0") == "end"


def test_same_key_twice_is_no_circle():
    assert slateconf.loads("a = ${b}${c}\nb = ${c}\nc = x").get("a") == "xx"
