import slateconf


def test_defaults_keep_their_value():
    defaults = slateconf.loads("[db]\nname = base\n")
    tenant = slateconf.layered(defaults)
    tenant.set("db.name", "one")
    assert defaults.get("db.name") == "base"


def test_with_another_layer_on_top():
    defaults = slateconf.loads("[db]\nname = base\n[db.pool]\nsize = 5\n")
    tenant = slateconf.layered(defaults, slateconf.loads("[log]\nlevel = info\n"))
    tenant.set("db.pool.size", 9)
    assert defaults.get_int("db.pool.size") == 5


def test_top_layer_is_not_shared():
    user = slateconf.loads("[a.b]\nx = 1\n")
    tenant = slateconf.layered(slateconf.loads("[a]\ny = 2\n"), user)
    tenant.set("a.b.x", 3)
    assert user.get("a.b.x") == "1"


def test_merge_shares_nothing_of_base():
    base = {"a": {"b": {"x": "1"}}}
    merged = slateconf.merge(base, {})
    merged["a"]["b"]["x"] = "2"
    assert base == {"a": {"b": {"x": "1"}}}


def test_merge_shares_nothing_of_over():
    over = {"a": {"b": {"x": "1"}}}
    merged = slateconf.merge({}, over)
    merged["a"]["b"]["x"] = "2"
    assert over == {"a": {"b": {"x": "1"}}}


def test_merged_values():
    assert slateconf.merge({"a": {"x": "1"}}, {"a": {"y": "2"}}) == {"a": {"x": "1", "y": "2"}}
