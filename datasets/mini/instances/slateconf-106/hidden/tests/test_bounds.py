import pytest

import slateconf
from slateconf import Field, Schema


@pytest.mark.parametrize("port", [1, 2, 65534, 65535])
def test_inside(port):
    assert Schema({"port": Field("int", low=1, high=65535)}).problems(slateconf.loads(f"port = {port}")) == []


@pytest.mark.parametrize(("port", "word"), [(0, "below 1"), (65536, "above 65535")])
def test_outside(port, word):
    problems = Schema({"port": Field("int", low=1, high=65535)}).problems(slateconf.loads(f"port = {port}"))
    assert problems == [f"port: {port} is {word}"]


def test_other_kinds():
    schema = Schema({"wait": Field("duration", low=0.5, high=60), "room": Field("size", low=1024)})
    assert schema.problems(slateconf.loads("wait = 1m\nroom = 1k")) == []


def test_zero_bound():
    assert Schema({"n": Field("int", low=0)}).problems(slateconf.loads("n = 0")) == []
