"""Trajectories of other projects, each layout read into the one model; and what is refused."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import foreign
from support.foreign import LOOK, MEND, PATCH

from uchide.agents.interop import load
from uchide.agents.interop.compare import compare, same_patch
from uchide.agents.interop.fields import written
from uchide.errors import StoreError


def put(folder, data, name="toy-1.traj.json"):
    path = folder / name
    path.write_text(json.dumps(data))
    return path


def actions(item):
    return [[act.text for act in step.acts] for step in item.steps]


@pytest.mark.parametrize("data", [foreign.mini_messages(), {"messages": foreign.mini_messages()}, foreign.mini_v1()])
def test_mini_swe_agent_before_version_2(tmp_path, data):
    found = load(put(tmp_path, data))
    assert (found.source, found.instance_id) == ("mini-swe-agent", "toy-1")
    assert actions(found) == [[LOOK], [MEND]]
    assert found.opening == (("system", "be good"), ("user", "mend it"))
    assert [step.thought for step in found.steps] == ["I see."] * 2
    assert (found.steps[0].observation, found.steps[0].returncode) == (foreign.SHOWN, "0")
    if "info" in data:
        assert (found.exit_status, found.patch, found.model) == ("Submitted", PATCH, "some/model")
        assert (found.usage.calls, found.usage.prompt_tokens, found.usage.cost) == (2, 100, 0.25)
    else:
        assert (found.exit_status, found.patch, found.usage) == ("", None, None)


def test_mini_swe_agent_2_with_a_reply_that_is_kept_only_in_its_error(tmp_path):
    found = load(put(tmp_path, foreign.mini_v2(), "other.traj.json"))
    assert actions(found) == [[LOOK], [], [MEND]]
    assert [(step.thought, step.problem) for step in found.steps][1] == ("no call", "the reply could not be parsed")
    assert (found.instance_id, found.exit_status, found.patch) == ("toy-1", "Submitted", PATCH)
    assert (found.usage.calls, found.usage.prompt_tokens, found.usage.cost) == (3, 150, 1.0)
    assert found.opening[0] == ("system", "be good")


def test_mini_swe_agent_2_over_the_responses_api(tmp_path):
    found = load(put(tmp_path, foreign.mini_responses()))
    (step,) = found.steps
    assert (step.thought, step.action, step.observation, step.returncode) == ("I see.", LOOK, "a - b", "0")
    assert step.usage.prompt_tokens == 50
    assert (found.exit_status, found.patch) == ("LimitsExceeded", "")


def test_the_published_variant_has_phases(tmp_path):
    found = load(put(tmp_path, foreign.published()))
    assert actions(found) == [[LOOK], [], [MEND]]
    assert [(step.phase, step.visit, step.token) for step in found.steps] == [
        ("CODE_LOCALIZE", 1, "W0"),
        ("CODE_LOCALIZE", 1, "COMPLETE"),
        ("CODE_FIX", 1, "W1"),
    ]
    assert [step.returncode for step in found.steps] == ["0", "", "1"]
    assert found.steps[1].observation == ""  # the next phase's opening answers nothing
    assert (found.usage.calls, found.usage.prompt_tokens, found.patch) == (5, 150, PATCH)


@pytest.mark.parametrize("nested", [False, True])
def test_a_stub_of_the_published_variant(tmp_path, nested):
    fields = {"agent_exit_status": "ExcludedByStrictXcheck", "model_patch": PATCH}
    found = load(put(tmp_path, {"instance_id": "toy-1", **({"info": fields} if nested else fields)}))
    assert (found.exit_status, found.patch, found.steps) == ("ExcludedByStrictXcheck", PATCH, ())


def test_swe_agent(tmp_path):
    found = load(put(tmp_path, foreign.swe_agent(), "toy-1.traj"))
    assert (found.source, found.instance_id, found.exit_status, found.patch) == (
        "swe-agent",
        "toy-1",
        "submitted",
        PATCH,
    )
    assert found.tools == Counter({"bash": 1, "str_replace_editor": 1, "submit": 1})
    assert found.opening == (("system", "be good"), ("user", "mend it"))
    assert (found.steps[0].action, found.steps[0].thought, found.steps[0].observation) == (LOOK, "I see.", "a - b")
    assert (found.usage.calls, found.usage.prompt_tokens, found.usage.cost) == (3, 100, 0.25)


@pytest.mark.parametrize("pairs", [True, False])
def test_openhands(tmp_path, pairs):
    found = load(put(tmp_path, foreign.openhands(pairs=pairs), "output.jsonl"))
    assert (found.source, found.instance_id, found.model) == ("openhands", "toy-1", "some/model")
    assert found.tools == Counter({"bash": 1, "edit": 1, "finish": 1})
    assert [step.observation for step in found.steps] == ["a - b", "edited", ""]
    assert found.steps[0].returncode == "0"
    assert json.loads(found.steps[1].action)["old_str"] == "-"
    assert found.opening == (("user", "mend it"),)
    assert (found.exit_status, found.patch) == ("finish", PATCH)
    assert (found.usage.calls, found.usage.cached_tokens, found.usage.cost) == (3, 40, 0.25)


def test_openhands_rows_are_chosen_by_instance_and_a_later_one_replaces_an_earlier_one(tmp_path):
    row, path = foreign.openhands(pairs=False), tmp_path / "output.jsonl"
    again = {**row, "error": "died"}
    lines = [row, {**row, "instance_id": "toy-2"}, again]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"instance_id": "toy-3", "hist')
    assert load(path, "toy-2").instance_id == "toy-2"
    assert load(path, "toy-1").exit_status == "error: died"
    with pytest.raises(StoreError, match="holds 2 trajectories") as error:
        load(path)
    assert "--instance: toy-1, toy-2" in error.value.hint
    with pytest.raises(StoreError, match="has no instance 'toy-3'"):
        load(path, "toy-3")


@pytest.mark.parametrize("where", ["folder", "list", "lines", "row"])
def test_openhands_sdk(tmp_path, where):
    events = foreign.sdk_events()
    if where == "folder":
        path = foreign.sdk_folder(tmp_path / "toy-1")
    elif where == "lines":
        path = tmp_path / "toy-1.json"
        path.write_text("\n".join(map(json.dumps, events)))
    else:
        path = put(tmp_path, events if where == "list" else {"instance_id": "toy-1", "history": events})
    found = load(path)
    assert (found.source, found.instance_id) == ("openhands-sdk", "toy-1")
    assert actions(found)[0] == [LOOK, "ls"]  # two calls of one reply
    assert [step.observation for step in found.steps] == ["calc.py\na - b", "no such file", ""]
    assert found.steps[1].problem == "no such file"
    assert found.exit_status == ("finished" if where == "folder" else "finish")
    assert found.model == ("some/model" if where == "folder" else "")


def test_atif(tmp_path):
    found = load(put(tmp_path, foreign.atif(), "trajectory.json"))
    assert (found.source, found.instance_id, found.model) == ("atif", "toy-1", "some/model")
    assert [step.thought for step in found.steps] == ["hm\nI see.", "done", "helped"]
    assert found.tools == Counter({"bash": 1, "edit": 1})
    assert (found.steps[0].observation, found.steps[0].usage.cached_tokens) == ("a - b", 20)
    assert [step.phase for step in found.steps] == ["", "", "helper"]
    assert (found.usage.prompt_tokens, found.usage.cost) == (100, 0.25)
    assert found.opening == (("system", "be good"), ("user", "mend it"))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "neither text nor zstd"),
        (b"\x28\xb5\x2f\xfdrubbish", "is not a trajectory"),
        (b'{"weights": [1], "name": "x"}', r"no known format \(it holds: name, weights\)"),
        (b"[]", r"no known format \(it holds: list\)"),
        (b"17", "no known format"),
        (b'{"instance_id": "a", "history": []}\n{"insta\n{"instance_id": "b"}', ":2: not JSON"),
    ],
)
def test_what_is_no_trajectory_is_one_clear_error(tmp_path, data, says):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=says):
        load(path)


def test_a_file_or_events_that_are_not_there(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        load(tmp_path / "nope.json")
    with pytest.raises(StoreError, match="without events"):
        load(tmp_path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
WHOLE = [
    foreign.mini_v2(), foreign.mini_responses(), foreign.published(), foreign.swe_agent(), foreign.atif(),
    foreign.openhands(pairs=True), foreign.openhands(pairs=False), {"history": foreign.sdk_events()},
]  # fmt: skip


@given(st.data())
def test_a_value_of_another_type_never_crashes(tmp_path_factory, data):
    """Kind: foreign files with fields that are null, missing, or of another type."""
    whole = json.loads(json.dumps(data.draw(st.sampled_from(WHOLE))))
    node = whole
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            node[key] = data.draw(JUNK)
            break
        node = node[key]
    path = tmp_path_factory.getbasetemp() / "junk.json"
    path.write_text(json.dumps(whole))
    try:
        found = load(path)
    except StoreError:
        return
    assert compare(found, found)


@pytest.mark.parametrize(
    ("reply", "thought", "action"),
    [
        ("THOUGHT: a\n```bash\nls\n```", "a", "ls"),
        ("a\n\n```mswea_bash_command\nls\n```\nb", "a", "ls"),
        ("```bash\nls\n```\n```bash\npwd\n```", "```bash\nls\n```\n```bash\npwd\n```", None),
        ("WORKFLOW: W1\nTHOUGHT: a\nFINAL_ANSWER:\n<tool: bash> ls </tool>", "a", "ls"),
        ('a <tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>', "a", "ls"),
        ("only words", "only words", None),
    ],
)
def test_an_action_in_a_text(reply, thought, action):
    said, acts = written(reply)
    assert (said, acts[0].text if acts else None) == (thought, action)


def test_two_trajectories_side_by_side(tmp_path):
    first = load(put(tmp_path, foreign.mini_v1(), "a.json"))
    second = load(put(tmp_path, foreign.swe_agent(), "b.json"))
    rows = {name: (one, two) for name, one, two in compare(first, second)}
    assert rows["format"] == ("mini-swe-agent", "swe-agent")
    assert rows["steps"] == ("2", "3")
    assert rows["prompt tokens"] == ("100", "100")
    assert rows["  bash"] == ("2", "1")
    assert rows["  submit"] == ("0", "1")
    assert rows["exit"] == ("Submitted", "submitted")
    assert rows["patches equal"] == ("yes", "")
    bare = load(put(tmp_path, foreign.mini_messages(), "c.json"))
    assert same_patch(first, bare) is None
    assert {name: two for name, _, two in compare(first, bare)}["prompt tokens"] == "?"


LONG = 10**400


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"messages":' + "[" * 150 + "]" * 150 + "}", "messages[0][0]"),
        (json.dumps({"messages": [{"role": "assistant", "extra": {"cost": LONG}}]}), "messages[0].extra.cost"),
        (json.dumps({"trajectory": [], "history": [], "info": {"x": -LONG}}), "info.x"),
        (json.dumps({"history": [{"action": "run", "source": "agent", "id": [1]}]}), "history[0].id"),
        (json.dumps({"history": [{"action": "run", "source": "agent"}, {"cause": {}}]}), "history[1].cause"),
        (json.dumps({"history": [[{"action": "run"}]]}), "history[0]: a pair of 1"),
        (json.dumps({"history": [[]]}), "history[0]: a pair of 0"),
    ],
)
def test_junk_is_refused_with_its_file_and_place(tmp_path, data, place):
    """Kind: values that are of the right type and beyond all reason."""
    path = tmp_path / "junk.json"
    path.write_text(data)
    with pytest.raises(StoreError) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert place in caught.value.message


@pytest.mark.parametrize("deep", ["[" * 100_000, "[" * 400 + "]" * 400])
def test_arguments_that_cannot_be_read_are_shown_as_they_are(tmp_path, deep):
    call = {"function": {"name": "note", "arguments": deep}}
    messages = [{"role": "system", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [call]}]
    assert load(put(tmp_path, {"messages": messages}, "a.json")).steps[0].acts[0].text == deep
