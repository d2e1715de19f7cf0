import pytest

import slateconf
from slateconf.lexer import strip_comment


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('a = "x # y"', 'a = "x # y"'),
        ('a = "x # y" # z', 'a = "x # y" '),
        ("a = 'x # y' # z", "a = 'x # y' "),
        ("a = \"it's # 1\" # z", "a = \"it's # 1\" "),
        ('a = one, "two # 2" # z', 'a = one, "two # 2" '),
    ],
)
def test_hash_in_quotes(line, kept):
    assert strip_comment(line) == kept


@pytest.mark.parametrize(
    ("line", "kept"), [("a = don't # remark", "a = don't "), ('a = 5" # inches', 'a = 5" '), ('a = "x" # "y"', 'a = "x" ')]
)
def test_hash_outside_quotes(line, kept):
    assert strip_comment(line) == kept


def test_values():
    conf = slateconf.loads('title = "Issue # 5"  # top\ntags = "a # 1", b # two\n')
    assert conf.get("title") == "Issue # 5"
    assert conf.get_list("tags") == ["a # 1", "b"]


def test_writer_round_trip():
    conf = slateconf.Config()
    conf.set("a", "x # y")
    assert slateconf.loads(slateconf.dumps(conf)).get("a") == "x # y"
