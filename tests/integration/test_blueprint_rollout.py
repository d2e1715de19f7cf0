"""Whole rollouts of the blueprint agent with scripted models, real commands and real test runs."""

import re

import pytest
from support import rollouts
from support.blueprint import (
    ABS,
    BROKEN,
    DOUBLE,
    FIX,
    HAPPY,
    PAIRS,
    READ_ALL,
    REPRO,
    WRITE_UNITTESTS,
    Player,
    bash,
    make_unittest_task,
    note,
    play,
    replace,
)
from support.local import LocalProvider

from uchide.actions import FORMATS
from uchide.agents.blueprint.agent import BlueprintAgent
from uchide.agents.blueprint.spec import load_spec
from uchide.errors import ConfigError, ContextOverflow
from uchide.records import Candidate

SHORT = {"REPRODUCE_ISSUE.1": (WRITE_UNITTESTS, "ok"), "GATHER_CONTEXT.1": READ_ALL}


def of(records, kind):
    return [record for record in records if record.kind == kind]


async def test_the_straight_way_leaves_a_candidate_as_phases_does(tmp_path):
    candidate, model, records = await play(tmp_path / "b")
    phases, _, _ = await rollouts.play(tmp_path / "p", rollouts.HAPPY)
    assert candidate.exit_status == "completed"
    assert candidate.warnings == ()
    assert candidate.phases == ("LOAD_TASK", "REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT", "VERIFY", "END")
    assert "-    return a - b\n+    return a + b\n" in candidate.patch
    assert REPRO not in candidate.patch
    assert candidate.suite.fail_to_pass == (f"{REPRO}::test_add", f"{REPRO}::test_negative")
    assert candidate.suite.pass_to_pass == ("tests/test_calc.py::test_zero", "tests/test_calc.py::test_double")
    assert [file.path for file in candidate.suite.files] == [REPRO]
    assert "Attempt 1 of 5: 4 of 4 tests pass (kept)" in candidate.report
    assert candidate.leaderboard_valid
    assert candidate.turns == 10
    assert candidate.usage.calls == 11  # the discrepancies are a call, no turn
    assert {name for name in Candidate.model_fields if getattr(candidate, name)} == {
        name for name in Candidate.model_fields if getattr(phases, name)
    }
    assert [turn.n for turn in of(records, "turn")] == list(range(1, 11))
    (call,) = of(records, "call")
    assert (call.phase, call.role, call.reply) == ("REPRODUCE_ISSUE", "discrepancies", PAIRS)
    assert {request.place for request in model.requests} == {"REPRODUCE_ISSUE", "GATHER_CONTEXT", "IMPLEMENT"}


async def test_the_best_of_five_attempts_is_kept(tmp_path):
    one = bash(
        f"printf 'import unittest, calc\\n\\n\\nclass T(unittest.TestCase):\\n    def test_add(self):\\n"
        f"        assert calc.add(2, 3) == 5\\n' > {REPRO}"
    )
    moves = {
        "REPRODUCE_ISSUE.1": (one, "One test."),
        "GATHER_CONTEXT.1": READ_ALL,
        "IMPLEMENT.1": (replace(DOUBLE, "return 0"), "1 of 3"),
        "GATHER_CONTEXT.2": READ_ALL,
        "IMPLEMENT.2": (replace("return 0", DOUBLE), bash("printf 'a\\0b' > l.bin; echo x > left.txt"), "2 of 3"),
        "IMPLEMENT.3": (bash("rm left.txt l.bin; echo y > more.py; chmod +x calc.py"), "2 of 3"),
        "IMPLEMENT.4": ("2 of 3",),
        "IMPLEMENT.5": (bash("rm calc.py"), "0 of 3"),
    }
    candidate, _, records = await play(tmp_path, moves, task=make_unittest_task(tmp_path))
    assert candidate.exit_status == "completed"
    assert candidate.phases.count("IMPLEMENT") == candidate.phases.count("VERIFY") == 5
    assert candidate.phases.count("GATHER_CONTEXT") == 2
    assert of(records, "phase")[-2].exit == "attempts_exhausted"
    assert re.findall(r"^diff --git a/(\S+)", candidate.patch, re.MULTILINE) == ["left.txt"]
    assert candidate.warnings == ("l.bin: binary file, dropped",)
    assert "Attempt 2 of 5: 2 of 3 tests pass, 1 of the issue's still fail (kept)" in candidate.report
    assert "Attempt 5 of 5: 0 of 3 tests pass" in candidate.report
    assert candidate.report.count("(kept)") == 1


async def test_only_implement_changes_the_source_and_only_failing_tests_count(tmp_path):
    junk = bash("echo '# x' >> calc.py; echo '# y' >> tests/test_calc.py; echo z > junk.py; mkdir -p tests/data")
    data = bash("echo d > tests/data/d.txt")
    fine = bash(f"printf '\\n    def test_fine(self):\\n        pass\\n' >> {REPRO}")
    moves = {
        "REPRODUCE_ISSUE.1": (junk, data, WRITE_UNITTESTS, fine, "ok"),
        "GATHER_CONTEXT.1": (bash("rm calc.py; echo q > q.py"), *READ_ALL),
        "IMPLEMENT.1": (FIX, "ok"),
    }
    model = Player(moves, write=FORMATS["tool_call"].write)
    options = {"action_format": "tool_call", "tests": {"regression": 1}}
    task = make_unittest_task(tmp_path, regression=("tests.test_absent.T.test_gone",))
    candidate, _, records = await play(tmp_path, options=options, task=task, model=model)
    assert (candidate.exit_status, candidate.warnings, candidate.format_errors) == ("completed", (), 0)
    assert re.findall(r"^diff --git a/(\S+)", candidate.patch, re.MULTILINE) == ["calc.py"]
    assert [file.path for file in candidate.suite.files] == ["tests/data/d.txt", REPRO]
    assert len(candidate.suite.fail_to_pass) == 2
    assert "1 more were dropped" in candidate.report
    # The list is there and was not asked for; of the existing tests as many are watched as wanted.
    assert candidate.leaderboard_valid
    assert candidate.suite.pass_to_pass == ("tests.test_calc.TestCalc.test_double",)
    # A text format is one line of configuration: the tools stand in the prompt, nothing is announced.
    assert records[0].action_format == "tool_call"
    assert all(not request.tools for request in model.requests)
    assert '"name": "dequeue"' in model.of("GATHER_CONTEXT")[0].messages[0].content


async def test_the_datasets_list_marks_the_candidate(tmp_path):
    listed = ("tests.test_calc.TestCalc.test_zero", "tests.test_absent.T.test_gone")
    task = make_unittest_task(tmp_path, regression=listed)
    model = Player({**SHORT, "IMPLEMENT.1": (FIX, "ok")}, write=FORMATS["toolcall"].write)
    options = {"dataset_p2p": True, "action_format": "toolcall"}
    candidate, model, _ = await play(tmp_path, options=options, task=task, model=model)
    assert candidate.exit_status == "completed"
    assert not candidate.leaderboard_valid
    assert candidate.suite.pass_to_pass == listed[:1]
    assert "from the data set's list" in candidate.report
    assert all("test_gone" not in message.content for request in model.requests for message in request.messages)


async def test_discrepancies_that_cannot_be_read_are_asked_for_once_more(tmp_path):
    answers = iter(["[{]", 'Here: [{"observed": "a", "expected": "b"}] ok'])
    model = Player(HAPPY, discrepancies=lambda _: next(answers))
    await play(tmp_path, options={"limits": {"steps": 1}}, model=model)
    assert [len(request.messages) for request in model.of("REPRODUCE_ISSUE", "discrepancies")] == [2, 4]
    assert "1. Observed: a\n   Expected: b" in model.of("REPRODUCE_ISSUE")[0].messages[1].content


async def test_without_readable_discrepancies_the_issue_speaks_for_itself(tmp_path):
    model = Player(HAPPY, discrepancies="[]")
    candidate, _, _ = await play(tmp_path, options={"limits": {"steps": 1}}, model=model)
    assert candidate.warnings == ("the discrepancies of the issue could not be read: the array is empty",)
    assert "One test for each" not in model.of("REPRODUCE_ISSUE")[0].messages[1].content


async def test_an_issue_too_long_for_the_model_ends_honestly(tmp_path):
    def refuse(_):
        raise ContextOverflow("too long")

    candidate, _, records = await play(tmp_path, model=Player(HAPPY, discrepancies=refuse))
    assert candidate.exit_status == "context_exceeded"
    assert records[-1].exit_status == "context_exceeded"


async def test_an_edge_that_is_not_declared_cannot_be_taken(tmp_path):
    spec = load_spec()
    load = spec.nodes["LOAD_TASK"].model_copy(update={"edges": {"loaded": "END"}})
    agent = BlueprintAgent(spec.model_copy(update={"nodes": {**spec.nodes, "LOAD_TASK": load}}))
    with pytest.raises(ConfigError, match="LOAD_TASK decided 'loaded' and goes to 'REPRODUCE_ISSUE', which is no"):
        await agent.rollout(make_unittest_task(tmp_path), Player({}), LocalProvider())


async def test_a_limit_ends_it_with_the_best_attempt_so_far(tmp_path):
    moves = SHORT | {
        "IMPLEMENT.1": (replace("return a - b", ABS), "3 of 4"),
        "IMPLEMENT.2": (replace(DOUBLE, BROKEN), *[bash("true")] * 20),
    }
    options = {"limits": {"steps": 12}}
    candidate, _, records = await play(tmp_path, moves, options, task=make_unittest_task(tmp_path))
    assert candidate.exit_status == "step_limit"
    assert (records[-2].phase, records[-2].exit, records[-2].next) == ("IMPLEMENT", "ended", None)
    assert f"+    {ABS}" in candidate.patch
    assert f"+    {BROKEN}\n" not in candidate.patch
    assert len(candidate.suite.fail_to_pass) == 2
    assert "ended early: step_limit" in candidate.report


async def test_without_a_failing_test_the_issue_alone_is_worked_from(tmp_path):
    moves = {
        "REPRODUCE_ISSUE.1": ("I cannot.", "Really not."),
        "GATHER_CONTEXT.1": (note("subtracts"), "Read."),
        "IMPLEMENT.1": (FIX, "ok"),
    }
    options = {"nodes": {"REPRODUCE_ISSUE": {"turns": 2}}}
    candidate, model, records = await play(tmp_path, moves, options, task=make_unittest_task(tmp_path))
    assert candidate.exit_status == "completed"
    assert of(records, "phase")[1].exit == "not_reproduced"
    assert "+    return a + b" in candidate.patch
    assert candidate.suite.fail_to_pass == ()
    assert "No test shows this issue yet" in model.of("GATHER_CONTEXT")[0].messages[1].content
    assert [record.rejected for record in of(records, "turn")][:2] == [
        ("there is no new test file. Write the tests, in a new file named `test_uchide_....py` as described above.",)
    ] * 2


async def test_the_datasets_list_has_to_be_there(tmp_path):
    with pytest.raises(ConfigError, match="dataset_p2p"):
        await play(tmp_path, options={"dataset_p2p": True})


async def test_native_tools_are_announced_with_their_schemas(tmp_path):
    _, model, _ = await play(tmp_path, {"REPRODUCE_ISSUE.1": ("x",)}, {"limits": {"steps": 1}})
    tools = {tool.name: tool.parameters for tool in model.of("REPRODUCE_ISSUE")[0].tools}
    assert list(tools) == ["bash", "read", "write"]
    assert tools["write"]["required"] == ["path", "content"]
    assert model.of("REPRODUCE_ISSUE", "discrepancies")[0].tools == ()


async def test_a_limit_before_any_attempt_leaves_no_edits_of_the_search(tmp_path):
    moves = {"REPRODUCE_ISSUE.1": (bash("echo 'import pdb' >> calc.py"), bash("true"))}
    candidate, _, records = await play(tmp_path, moves, {"limits": {"steps": 1}})
    assert candidate.exit_status == "step_limit"
    assert next(record for record in records if record.kind == "turn").returncode == 0
    assert candidate.patch == ""
