"""The graph of phases as scripted models walk it: every edge that is declared, and none besides."""

import pytest
from support.rollouts import FIX, HAPPY, PHASES, play
from support.scripted import turn

from uchide.agents.phases.spec import load_spec

GIVE_UP = turn("GIVEUP", memo="cannot")
SPEC = load_spec()
EDGES = {(source, kind, target) for source, kind, target in SPEC.edges()}
LIMITS = {"limits": {"phase_visits": 60}, "phases": {name: {"visits": 20} for name in PHASES}}


def of(records, kind):
    return [record for record in records if record.kind == kind]


def taken(records):
    return {(record.phase, record.exit, record.next) for record in of(records, "phase") if record.next is not None}


def way_to(phase):
    """The turns that lead to a phase by the straight way."""
    return HAPPY[: 3 + 2 * (PHASES.index(phase) - 1)] if phase != PHASES[0] else ()


def whole(phase):
    """The turns of a phase, from its entry to its COMPLETE."""
    return HAPPY[len(way_to(phase)) : len(way_to(phase)) + (3 if phase == PHASES[0] else 2)]


async def test_two_rollouts_take_all_fifteen_edges(tmp_path):
    script = (
        *(GIVE_UP, GIVE_UP),  # ISSUE_REPRODUCE gives up to CODE_LOCALIZE, and that gives it back
        *whole("ISSUE_REPRODUCE"),
        *(GIVE_UP, *whole("CODE_LOCALIZE")),  # TEST_SYNTHESIZE gives up
        *(GIVE_UP, GIVE_UP, GIVE_UP),  # TEST_LOCALIZE, CODE_FIX and VERIFY_PATCH give up: back to CODE_FIX
        *(turn("W3", FIX), turn("COMPLETE", memo="x"), *whole("VERIFY_PATCH")),
        GIVE_UP,  # ISSUE_CLOSE
        *(turn("COMPLETE", memo="x"), turn("COMPLETE", memo="x"), *whole("ISSUE_CLOSE")),
        *(GIVE_UP, *whole("FINAL_REPORT")),  # FINAL_REPORT gives up once
    )
    first, _, records = await play(tmp_path / "a", script, LIMITS)
    _, _, straight = await play(tmp_path / "b", HAPPY)
    assert first.exit_status == "completed"
    assert taken(records) | taken(straight) == EDGES
    assert len(EDGES) == 15
    assert {kind for _, kind, _ in taken(records)} == {"complete", "giveup"}


@pytest.mark.parametrize("phase", PHASES)
async def test_a_missing_product_refuses_complete_with_a_message_that_names_it(tmp_path, phase):
    way = way_to(phase)
    script = (*way, turn("COMPLETE", memo="all done"), turn("W0", "true"))
    candidate, model, records = await play(tmp_path, script, {"limits": {"steps": len(script)}})
    refused = of(records, "turn")[len(way)]
    assert refused.rejected == SPEC.phases[phase].due
    assert candidate.phases[-1] == phase
    told = model.requests[-1][-1].content
    assert "COMPLETE is refused" in told
    for product in SPEC.phases[phase].due:
        name = "a change of at least one file that is not a test" if product == "diff" else f"/share/{product} (absent"
        assert name in told


@pytest.mark.parametrize("phase", PHASES)
async def test_products_that_are_there_let_the_same_phase_complete(tmp_path, phase):
    script = (*way_to(phase), *whole(phase))
    following = SPEC.phases[phase].on_complete
    options = {"limits": {"steps": len(script)}}
    candidate, _, records = await play(tmp_path, script, options)
    assert candidate.exit_status == ("completed" if following is None else "step_limit")
    assert (of(records, "phase")[PHASES.index(phase)].exit, candidate.phases[-1]) == ("complete", following or phase)


@pytest.mark.parametrize(
    "reply",
    [
        turn("CODE_FIX", memo="straight to the fix"),
        turn("COMPLETE CODE_FIX", memo="straight to the fix"),
        turn("GOTO:CODE_FIX", "true"),
        turn("NEXT", "true"),
        "WORKFLOW: W0\nWORKFLOW: COMPLETE\nTHOUGHT: skip\nFINAL_ANSWER:\nnext: CODE_FIX",
    ],
)
async def test_an_undeclared_edge_cannot_be_taken(tmp_path, reply):
    candidate, _, records = await play(tmp_path, (reply, turn("W0", "true")), {"limits": {"steps": 2}})
    assert of(records, "turn")[0].format_error
    assert candidate.phases == ("ISSUE_REPRODUCE",)
    assert taken(records) == set()


async def test_what_is_written_about_the_way_decides_nothing(tmp_path):
    lie = "printf 'next: FINAL_REPORT' > /share/next; printf 'WORKFLOW: COMPLETE\\nnext: FINAL_REPORT'"
    memo = 'Next: FINAL_REPORT. {"next": "FINAL_REPORT"}'
    script = (turn("W0", lie), HAPPY[1], turn("COMPLETE", memo=memo), turn("W0", "true"))
    candidate, _, records = await play(tmp_path, script, {"limits": {"steps": 4}})
    assert candidate.phases == ("ISSUE_REPRODUCE", "TEST_SYNTHESIZE")
    assert {edge for record in records if record.kind == "header" for edge in record.edges} == EDGES


async def test_every_kind_of_exit_keeps_to_the_declared_edges(tmp_path):
    """Turn limits, give-ups and completions mixed."""
    options = {"limits": {"steps": 60}, "phases": {name: {"turns": 2} for name in PHASES}}
    idle = turn("W0", "true")
    script = [answer for n in range(30) for answer in ((idle, idle, turn("HANDOVER", memo=f"m{n}")), (GIVE_UP,))[n % 2]]
    _, _, records = await play(tmp_path, script, options)
    declared = {(source, target) for source, _, target in EDGES}
    assert {kind for _, kind, _ in taken(records)} == {"giveup", "turn_limit"}
    assert {(source, target) for source, _, target in taken(records)} <= declared
