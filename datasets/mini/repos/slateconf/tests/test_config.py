import pytest

import slateconf
from slateconf import Config, ConfigError, InterpolationError, MissingKey, ParseError

TEXT = """
name = demo
[server]
host = "example.org"   # quoted
port = 8080
debug = yes
timeout = 1m30s
limit = 64k
tags = web, "front, end"
url = http://${host}:${server.port}/
[server.tls]
cert = /etc/${name}.pem
"""


@pytest.fixture
def conf():
    return slateconf.loads(TEXT)


def test_typed_values(conf):
    assert conf.get("server.host") == "example.org"
    assert conf.get_int("server.port") == 8080
    assert conf.get_float("server.port") == 8080.0
    assert conf.get_bool("server.debug") is True
    assert conf.get_duration("server.timeout") == 90.0
    assert conf.get_size("server.limit") == 65536
    assert conf.get_list("server.tags") == ["web", "front, end"]


def test_references(conf):
    assert conf.get("server.url") == "http://example.org:8080/"
    assert conf.get("server.tls.cert") == "/etc/demo.pem"


def test_default_for_an_absent_key(conf):
    assert conf.get("server.nothing", "x") == "x"
    assert conf.get_int("nothing.at.all", 3) == 3
    assert conf.get("server.nothing", None) is None


def test_absent_key(conf):
    with pytest.raises(MissingKey, match="no such key: server.nothing"):
        conf.get("server.nothing")
    with pytest.raises(KeyError):
        conf.raw("nothing")


def test_contains_and_items(conf):
    assert "server.tls" in conf
    assert "server.tls.key" not in conf
    assert conf.items()[0] == ("name", "demo")
    assert conf.sections() == ["server"]


def test_section_is_a_view(conf):
    conf.section("server").set("port", 81)
    assert conf.get_int("server.port") == 81
    with pytest.raises(MissingKey):
        conf.section("name")


def test_reference_fallback_and_escape():
    conf = slateconf.loads("a = ${nope:-x}y\nb = $${a}\nc = ${a}${a}")
    assert conf.get("a") == "xy"
    assert conf.get("b") == "${a}"
    assert conf.get("c") == "xyxy"


def test_reference_to_itself():
    with pytest.raises(InterpolationError, match="circular"):
        slateconf.loads("a = ${a}").get("a")


def test_reference_to_nothing():
    with pytest.raises(InterpolationError, match="unknown key"):
        slateconf.loads("a = ${b}").get("a")


def test_append():
    assert slateconf.loads("a = x\na += y\nb += z").items() == [("a", "x, y"), ("b", "z")]


def test_value_is_no_section():
    with pytest.raises(ParseError, match="line 2"):
        slateconf.loads("a = 1\n[a]\nb = 2")
    with pytest.raises(ConfigError):
        slateconf.loads("a = 1").set("a.b", 2)


def test_include(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "main.conf").write_text("a = 1\n@include sub/more.conf\n")
    (tmp_path / "sub" / "more.conf").write_text("\ufeff[s]\nb = 2\n", encoding="utf-8")
    assert slateconf.load(tmp_path / "main.conf").items() == [("a", "1"), ("s.b", "2")]


def test_include_circle(tmp_path):
    (tmp_path / "a.conf").write_text("@include a.conf\n")
    with pytest.raises(ParseError, match="itself"):
        slateconf.load(tmp_path / "a.conf")


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        slateconf.load(tmp_path / "none.conf")


def test_empty():
    assert slateconf.loads("").items() == []
    assert Config() == slateconf.loads("# nothing\n")
