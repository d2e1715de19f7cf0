import pytest

import slateconf
from slateconf import Field, Schema, SchemaError
from slateconf.layers import from_environ


def test_later_layers_win():
    conf = slateconf.layered(slateconf.loads("[a]\nx = 1\ny = 2"), slateconf.loads("[a]\nx = 3\n[b]\nz = 4"))
    assert conf.items() == [("a.x", "3"), ("a.y", "2"), ("b.z", "4")]


def test_value_replaces_section_and_back():
    assert slateconf.merge({"a": {"x": "1"}}, {"a": "2"}) == {"a": "2"}
    assert slateconf.merge({"a": "2"}, {"a": {"x": "1"}}) == {"a": {"x": "1"}}


def test_merge_leaves_values_of_its_arguments():
    base = {"a": {"x": "1"}}
    slateconf.merge(base, {"a": {"x": "2"}})
    assert base == {"a": {"x": "1"}}


def test_environment():
    conf = from_environ({"APP_SERVER__PORT": "1", "HOME": "/root", "APP_NAME": "n", "APP_": "no"})
    assert conf.items() == [("name", "n"), ("server.port", "1")]


@pytest.mark.parametrize("text", ["a = 1\n", "[s]\na = 1\n\n[s.t]\nb = 2\n", "a =\n", 'a = "x, y"\n'])
def test_round_trip(text):
    assert slateconf.dumps(slateconf.loads(text)) == text


def test_writer_puts_values_first():
    conf = slateconf.loads("[s]\na = 1")
    conf.set("top", 2)
    assert slateconf.dumps(conf) == "top = 2\n\n[s]\na = 1\n"


def test_schema_accepts():
    schema = Schema({"port": Field("int", required=True, low=1, high=10), "mode": Field(choices=("a", "b"))})
    conf = slateconf.loads("port = 5\nmode = a")
    assert schema.check(conf) is conf


def test_schema_lists_all_problems():
    schema = Schema({"port": Field("int", low=1, high=10), "mode": Field(choices=("a", "b")), "x": Field(required=True)}, strict=True)
    with pytest.raises(SchemaError) as caught:
        schema.check(slateconf.loads("port = 50\nmode = c\nother = 1"))
    assert caught.value.problems == [
        "port: 50 is above 10",
        "mode: 'c' is not one of a, b",
        "x: missing",
        "other: unknown key",
    ]


def test_schema_reports_bad_types():
    assert Schema({"n": Field("int")}).problems(slateconf.loads("n = many")) == ["n: not an integer: 'many'"]


def test_unknown_kind():
    with pytest.raises(slateconf.ConfigError):
        Field("colour")
