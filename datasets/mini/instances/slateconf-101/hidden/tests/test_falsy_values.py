import pytest

import slateconf


@pytest.fixture
def conf():
    return slateconf.loads("[s]\nn = 0\nf = 0.0\nb = off\nt =\nl = ,\nd = 0s\nz = 0k\n")


def test_zero_is_a_value(conf):
    assert conf.get_int("s.n", 3) == 0
    assert conf.get_float("s.f", 1.5) == 0.0
    assert conf.get_int("s.n") == 0


def test_false_is_a_value(conf):
    assert conf.get_bool("s.b", True) is False
    assert conf.get_bool("s.b") is False


def test_empty_text_is_a_value(conf):
    assert conf.get("s.t", "default") == ""
    assert conf.get("s.t") == ""


def test_empty_list_is_a_value(conf):
    assert conf.get_list("s.l", ["x"]) == []


def test_zero_with_units(conf):
    assert conf.get_duration("s.d", 9.0) == 0.0
    assert conf.get_size("s.z", 9) == 0


def test_schema_sees_zero(conf):
    schema = slateconf.Schema({"s.n": slateconf.Field("int", low=1)})
    assert schema.problems(conf) == ["s.n: 0 is below 1"]


def test_absent_still_gets_the_default(conf):
    assert conf.get_int("s.other", 3) == 3
    assert conf.get_list("s.other", ["x"]) == ["x"]
    assert conf.get("s", "x") == "x"
    with pytest.raises(slateconf.MissingKey):
        conf.get_int("s.other")
