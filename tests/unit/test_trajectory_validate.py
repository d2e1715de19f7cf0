"""`uchide trajectory validate`: what our agents write is valid, and each kind of damage is named with its record."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import blueprint
from support.rollouts import FIX, HAPPY, play
from support.scripted import turn

from uchide.agents.interop.invariants import violations
from uchide.agents.trajectory import EndRecord, PhaseRecord, TrajectoryWriter, TurnRecord, read
from uchide.records import Usage


def told(records):
    return [(item.record, item.message) for item in violations(records)]


def change(record, **fields):
    return record.model_copy(update=fields)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The records of a whole rollout, for tests that damage them."""
    import asyncio

    answers = (turn("COMPLETE"), "nonsense", *HAPPY)
    return asyncio.run(play(tmp_path_factory.mktemp("straight"), answers))[2]


def at(records, kind, number=0):
    """Index of the number-th record of a kind."""
    return [index for index, record in enumerate(records) if record.kind == kind][number]


def damaged(records, index, **fields):
    return [*records[:index], change(records[index], **fields), *records[index + 1 :]]


def test_a_whole_rollout_is_valid(straight):
    assert told(straight) == []
    assert straight[at(straight, "turn")].rejected == ("reproduce.md",)


REPLIES = [
    turn("W0", "true"),
    turn("W1", "echo x > /share/reproduce.md; echo y > /share/root_cause.md"),
    turn("W1", FIX),
    *(turn("COMPLETE", memo="memo"), turn("COMPLETE"), turn("COMPLETE", "true"), turn("GIVEUP", memo="memo")),
    *(turn("GIVEUP"), turn("HANDOVER", memo="memo"), turn("HANDOVER"), "nonsense", ""),
]
LIMITS = st.sampled_from(
    [{"steps": 10}, {"steps": 10, "phase_visits": 2}, {"steps": 10, "format_errors": 2}, {"tokens": 500}]
)
SWITCHES = st.fixed_dictionaries({"phases": st.booleans(), "handover": st.booleans()})


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(REPLIES), min_size=1, max_size=10), LIMITS, SWITCHES)
async def test_whatever_a_model_says_the_trajectory_is_valid(tmp_path_factory, replies, limits, mechanisms):
    options = {"limits": limits, "mechanisms": mechanisms, "phases": {"ISSUE_REPRODUCE": {"turns": 4}}}
    folder = tmp_path_factory.mktemp("valid")
    _, _, records = await play(folder, [*replies, *["nonsense"] * 60], options)
    assert told(records) == []
    assert isinstance(records[-1], EndRecord)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """The records of a rollout of the blueprint agent."""
    import asyncio

    folder = tmp_path_factory.mktemp("nodes")
    moves = {**blueprint.HAPPY, "REPRODUCE_ISSUE.1": (blueprint.WRITE_UNITTESTS, "Two tests.")}
    return asyncio.run(blueprint.play(folder, moves, task=blueprint.make_unittest_task(folder)))[2]


def test_a_rollout_of_the_blueprint_agent_is_valid(nodes):
    assert told(nodes) == []
    assert {record.kind for record in nodes} == {"header", "context", "turn", "call", "phase", "end"}


async def test_a_rollout_that_our_fault_ended_is_valid(tmp_path):
    with pytest.raises(Exception, match="the script is over"):
        await play(tmp_path, (turn("W0", "true"),))
    records = list(read(next(tmp_path.glob("trajectories/*"))))
    assert records[-1].exit_status == "infra"
    assert told(records) == []


def test_the_order_of_records(straight):
    header, *rest = straight
    assert told(rest)[0] == (1, "the first record is no header")
    assert told([header, header, *rest]) == [(2, "another header record")]
    assert told([*straight, straight[1]]) == [(len(straight) + 1, "a context record follows the end record")]


def test_an_unfinished_rollout_is_not_a_violation(straight):
    for count in range(1, len(straight)):
        assert told(straight[:count]) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"n": 7}, "turn 7 follows turn 2"),
        ({"n": 2}, "turn 2 follows turn 2"),
        ({"format_error": "why"}, "a format error together with action and token and tool"),
        ({"action": None, "tool": "", "returncode": None}, "W0 without an action"),
        ({"token": ""}, "neither a token nor a format error"),
        ({"tool": ""}, "an action without its tool"),
        ({"rejected": ("reproduce.md",)}, "W0 was refused, which only COMPLETE and HANDOVER can be"),
        ({"phase": "CODE_FIX"}, "CODE_FIX (visit 1) begins before ISSUE_REPRODUCE (visit 1) was left"),
    ],
)
def test_a_wrong_turn(straight, fields, says):
    index = at(straight, "turn", 2)
    assert (index + 1, says) in told(damaged(straight, index, **fields))


def test_a_refusal_names_products_of_the_phase(straight):
    index = at(straight, "turn")
    found = told(damaged(straight, index, rejected=("moon.txt",)))
    assert found == [(index + 1, "COMPLETE is refused for moon.txt, which is no product of ISSUE_REPRODUCE")]


def test_a_complete_that_neither_left_nor_was_refused(straight):
    found = told(damaged(straight, at(straight, "turn"), rejected=()))
    assert [message for _, message in found] == [
        "COMPLETE at record 3 was neither refused nor the end of ISSUE_REPRODUCE"
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"next": "CODE_FIX"}, "ISSUE_REPRODUCE was left by complete to CODE_FIX, which is no declared edge"),
        ({"exit": "giveup"}, "ISSUE_REPRODUCE was left by giveup to TEST_SYNTHESIZE, which is no declared edge"),
        ({"turns": 9}, "ISSUE_REPRODUCE counts 9 turns, and has 5"),
        ({"share": ()}, "ISSUE_REPRODUCE completed without its product reproduce.md"),
        ({"exit": "ended"}, "the rollout ended in ISSUE_REPRODUCE, and went on to TEST_SYNTHESIZE"),
    ],
)
def test_a_wrong_exit(straight, fields, says):
    index = at(straight, "phase")
    assert (index + 1, says) in told(damaged(straight, index, **fields))


def test_a_phase_is_entered_where_the_last_exit_led(straight):
    index = at(straight, "phase")
    found = told(damaged(straight, index, next="CODE_FIX"))
    assert (index + 2, "TEST_SYNTHESIZE is entered, but ISSUE_REPRODUCE led to CODE_FIX") in found
    without = [record for record in straight if not (isinstance(record, PhaseRecord) and record.phase == "CODE_FIX")]
    assert any("begins before CODE_FIX" in message for _, message in told(without))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"turns": 3}, "the end counts 3 turns, and there are 19"),
        ({"format_errors": 0}, "the end counts 0 format errors, and there are 1"),
    ],
)
def test_counts_of_the_end(straight, fields, says):
    assert told(damaged(straight, len(straight) - 1, **fields)) == [(len(straight), says)]


def test_tokens_of_the_end(straight):
    wrong = change(straight[-1].usage, prompt_tokens=5)
    found = told([*straight[:-1], change(straight[-1], usage=wrong)])
    assert found == [(len(straight), "the end counts 5 prompt_tokens, and the records sum up to 1900")]


def test_completed_needs_the_last_phase(straight):
    index = at(straight, "phase", -1)
    kept = [*straight[:index], straight[-1]]
    assert any("was never left" in message for _, message in told(kept))
    early = at(straight, "phase")
    cut = [*straight[:early], change(straight[early], next=None), change(straight[-1], turns=5)]
    assert any("complete of ISSUE_REPRODUCE has a declared way on" in message for _, message in told(cut))


def test_a_call_belongs_to_the_next_turn(nodes):
    index = at(nodes, "call")
    found = told(damaged(nodes, index, turn=nodes[index].turn + 3))
    assert [record for record, message in found if "but the next turn is" in message] == [index + 1]


def test_a_whole_file_is_read_without_a_notice_and_a_cut_one_with_one(straight, tmp_path):
    path, notices = tmp_path / "t.jsonl.zst", []
    with TrajectoryWriter(path) as writer:
        for record in straight:
            writer.write(record)
    assert list(read(path, notices.append)) == straight
    assert notices == []
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    assert list(read(path, notices.append)) == straight
    path.write_bytes(whole + whole)
    assert list(read(path, notices.append)) == straight
    assert [notice.partition(": ")[2] for notice in notices] == [
        f"the file is cut; {len(straight)} records are whole",
        f"damaged after record {len(straight)} (something follows its end)",
    ]


def test_every_turn_of_the_script_is_there(straight):
    assert sum(isinstance(record, TurnRecord) for record in straight) == 2 + len(HAPPY)


def test_an_exit_is_the_one_that_the_turns_led_to(straight):
    """Kind: exits without the turn that takes them."""
    first, left = at(straight, "turn"), at(straight, "phase")
    last = left - 1
    assert straight[last].token == "COMPLETE"
    step = straight[last - 1]
    silent = damaged(straight, last, token=step.token, tool=step.tool, action=step.action)
    says = "ISSUE_REPRODUCE was left by complete without a COMPLETE that was not refused"
    assert told(silent) == [(left + 1, says)]
    edges = (*straight[0].edges, ("ISSUE_REPRODUCE", "giveup", straight[left].next))
    allowed = [change(straight[0], edges=edges), *straight[1:]]
    found = told(damaged(allowed, left, exit="giveup"))
    assert found == [(left + 1, f"ISSUE_REPRODUCE was left by giveup after COMPLETE at record {last + 1}")]
    assert straight[first].rejected
    given = damaged(straight, first, token="GIVEUP", rejected=())
    assert "GIVEUP at record 3 was not the end of ISSUE_REPRODUCE" in [message for _, message in told(given)]
    silent = damaged(allowed, last, token=step.token, tool=step.tool, action=step.action)
    assert told(damaged(silent, left, exit="giveup")) == [
        (left + 1, "ISSUE_REPRODUCE was left by giveup without the turn that says so")
    ]
    found = told(damaged(silent, left, exit="turn_limit"))
    assert [record for record, message in found if "was left by turn_limit after 5 of its" in message] == [left + 1]


@pytest.mark.parametrize("token", ["W99", "W", "FOO", "Wx"])
def test_a_token_that_the_workflow_has_not(straight, token):
    index = at(straight, "turn", 2)
    found = told(damaged(straight, index, token=token))
    assert [record for record, message in found if message.startswith(f"{token} is no token")] == [index + 1]


def test_completed_by_nothing(straight):
    header, end = straight[0], change(straight[-1], turns=0, format_errors=0, usage=Usage())
    assert told([header, end]) == [(2, "completed, but no phase was left")]
    assert told([header, change(end, exit_status="token_limit")]) == []
    last = at(straight, "phase", -1)
    found = told(damaged(straight, last, exit="ended", next=None))
    assert any(message.startswith("completed, but a limit ended the rollout") for _, message in found)


def test_a_start_that_no_edge_names(straight, nodes):
    for records in (straight, nodes):
        edges = tuple((f"not {start}", by, f"not {to}") for start, by, to in records[0].edges)
        found = told([change(records[0], edges=edges), *records[1:]])
        assert found[0][1].endswith("which no declared edge names")
