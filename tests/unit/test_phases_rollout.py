"""Whole rollouts of the phases agent with scripted models and real commands."""

import json

import pytest
from support.local import LocalProvider
from support.rollouts import FIX, HAPPY, NEW_TEST, PHASES, REGRESSION, make_task, play
from support.scripted import Scripted, header, turn

from uchide import agents
from uchide.agents import trajectory
from uchide.agents.phases.halves import looks_cut
from uchide.errors import ConfigError, ModelError
from uchide.records import digest

GIVE_UP = turn("GIVEUP", memo="cannot")
EARLY = HAPPY[:9]  # the four phases before CODE_FIX


def of(records, kind):
    return [record for record in records if record.kind == kind]


async def test_the_straight_way_gives_patch_suite_report_and_trajectory(tmp_path):
    candidate, model, records = await play(tmp_path, HAPPY)
    assert candidate.exit_status == "completed"
    assert candidate.phases == PHASES
    assert candidate.patch.endswith("@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n")
    assert candidate.patch_sha256 == digest(candidate.patch)
    assert candidate.suite.fail_to_pass == ("tests/test_uchide_r01_s1001.py::test_add",)
    assert candidate.suite.pass_to_pass == ("tests/test_calc.py::test_zero",)
    assert [file.path for file in candidate.suite.files] == ["tests/test_uchide_r01_s1001.py"]
    assert candidate.report == "fixed add\n"
    assert candidate.turns == len(HAPPY) == len(model.requests)
    assert candidate.usage.prompt_tokens == 100 * len(HAPPY)
    assert candidate.warnings == ()
    assert candidate.trajectory == "trajectories/main.r01_s1001.toy__calc-1.jsonl.zst"
    assert [(r.phase, r.exit, r.next) for r in of(records, "phase")] == [
        (name, "complete", following) for name, following in zip(PHASES, (*PHASES[1:], None), strict=True)
    ]
    assert records[-1].exit_status == "completed"
    assert records[-1].patch_sha256 == candidate.patch_sha256


async def test_the_header_is_the_first_line_and_tells_the_phase(tmp_path):
    _, model, _ = await play(tmp_path, HAPPY)
    first = header(model.requests[0])
    assert first == {
        "schema": 1,
        "role": "agent",
        "phase": "ISSUE_REPRODUCE",
        "visit": 1,
        "run": "r01_s1001",
        "share": "/share",
        "root": "/testbed",
        "due": ["reproduce.md"],
        "tools": ["run_tests"],
        "action_format": "tool_bash",
        "instance_id": "toy__calc-1",
        "steps": 10,
        "turns": 60,
        "next": {"complete": "TEST_SYNTHESIZE", "giveup": "CODE_LOCALIZE"},
    }
    assert list(dict.fromkeys(header(messages)["phase"] for messages in model.requests)) == list(PHASES)
    fix = next(messages for messages in model.requests if header(messages)["phase"] == "CODE_FIX")
    assert "## CODE_LOCALIZE\n\n```\ncalc.py:2.\n```" in fix[1].content
    assert "- `root_cause.md` (" in fix[1].content


async def test_the_issue_record_in_the_share_is_the_documented_one(tmp_path):
    _, model, _ = await play(tmp_path, HAPPY)
    seen = model.requests[1][-1].content
    record = json.loads(seen.partition("<output>\n")[2].rpartition("\n</output>")[0])
    assert record["schema"] == 1
    assert {"instance_id", "repo", "problem_statement", "snippet", "observed", "expected", "language"} < set(record)


async def test_verification_sends_the_work_back_and_a_loop_ends_at_the_visit_limit(tmp_path):
    back = (turn("W3", FIX), turn("COMPLETE", memo="x"), GIVE_UP)
    again = (turn("COMPLETE", memo="same"), GIVE_UP)
    candidate, _, records = await play(tmp_path, (*EARLY, *back, *again, *again, *again))
    assert candidate.exit_status == "visit_limit"
    assert candidate.phases.count("CODE_FIX") == 4
    assert "+    return a + b" in candidate.patch
    assert candidate.suite.fail_to_pass
    assert of(records, "phase")[-1].next is None


async def test_giving_up_everywhere_ends_honestly(tmp_path):
    # ISSUE_REPRODUCE and CODE_LOCALIZE send the work to each other until one has no visit left.
    candidate, _, records = await play(tmp_path, [GIVE_UP] * 20)
    assert candidate.exit_status == "visit_limit"
    assert candidate.phases == ("ISSUE_REPRODUCE", "CODE_LOCALIZE") * 3
    assert candidate.patch == ""
    assert {record.exit for record in of(records, "phase")} == {"giveup"}


async def test_giving_up_the_report_ends_as_gave_up(tmp_path):
    candidate, _, _ = await play(tmp_path, (*HAPPY[:-2], GIVE_UP, GIVE_UP))
    assert candidate.exit_status == "gave_up"
    assert candidate.phases[-2:] == ("FINAL_REPORT", "FINAL_REPORT")


@pytest.mark.parametrize("source", PHASES)
async def test_every_give_up_takes_its_declared_edge(tmp_path, source):
    edges = agents.phases.load_spec().phases
    way = HAPPY[: 3 + 2 * (PHASES.index(source) - 1)] if source != PHASES[0] else ()
    candidate, _, records = await play(tmp_path, (*way, GIVE_UP), {"limits": {"steps": len(way) + 1}})
    left = of(records, "phase")[len(candidate.phases) - 2]
    assert (left.phase, left.exit, left.next) == (source, "giveup", edges[source].on_giveup)
    assert candidate.phases[-1] == edges[source].on_giveup
    assert candidate.exit_status == "step_limit"


async def test_complete_without_its_products_is_refused_and_recorded(tmp_path):
    bare = turn("COMPLETE", memo="done")
    answers = (bare, turn("W1", "printf ' \\n' > /share/reproduce.md"), bare, *HAPPY)
    candidate, model, records = await play(tmp_path, answers)
    assert candidate.exit_status == "completed"
    refused = [record for record in of(records, "turn") if record.rejected]
    assert [record.rejected for record in refused] == [("reproduce.md",), ("reproduce.md",)]
    assert "COMPLETE is refused" in model.requests[1][-1].content
    assert "/share/reproduce.md" in model.requests[1][-1].content
    assert candidate.format_errors == 0


async def test_a_fix_that_touches_only_tests_is_no_fix(tmp_path):
    answers = (*EARLY, turn("W1", "echo '#' >> tests/test_calc.py"), turn("COMPLETE"), GIVE_UP)
    candidate, model, records = await play(tmp_path, answers, {"limits": {"steps": len(EARLY) + 3}})
    assert [record.rejected for record in of(records, "turn") if record.rejected] == [("diff",)]
    assert "a change of at least one file that is not a test" in model.requests[-1][-1].content
    assert candidate.patch == ""
    assert {file.path for file in candidate.suite.files} == {"tests/test_calc.py", "tests/test_uchide_r01_s1001.py"}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"limits": {"steps": 3}}, "step_limit"),
        ({"limits": {"tokens": 300}}, "token_limit"),
        ({"limits": {"phase_visits": 1}}, "visit_limit"),
        ({"limits": {"wall_time_s": 0.4}}, "time_limit"),
    ],
)
async def test_every_limit_has_its_exit_status_and_leaves_a_whole_trajectory(tmp_path, options, status):
    answers = (HAPPY[0], turn("W1", "sleep 0.3"), *HAPPY[1:])
    candidate, _, records = await play(tmp_path, answers, options)
    assert candidate.exit_status == status
    assert records[-1].kind == "end"
    assert records[-1].turns == candidate.turns == len(of(records, "turn"))
    assert of(records, "phase")[-1].next is None


async def test_a_model_that_never_answers_meets_the_time_limit(tmp_path):
    class Silent(Scripted):
        async def complete(self, request):
            import asyncio

            await asyncio.sleep(60)

    agent = agents.create({"limits": {"wall_time_s": 0.3}})
    candidate = await agent.rollout(make_task(tmp_path), Silent([]), LocalProvider())
    assert candidate.exit_status == "time_limit"
    assert candidate.turns == 0


async def test_the_turn_budget_of_a_phase_leaves_it_by_the_give_up_edge(tmp_path):
    options = {"phases": {"ISSUE_REPRODUCE": {"turns": 2}}, "limits": {"steps": 4}}
    answers = (turn("W0", "true"), turn("W1", "true"), turn("HANDOVER", memo="ran out"), turn("W0", "true"))
    candidate, model, records = await play(tmp_path, answers, options)
    assert candidate.phases == ("ISSUE_REPRODUCE", "CODE_LOCALIZE")
    assert of(records, "phase")[0].exit == "turn_limit"
    assert "ends here (turn_limit)" in model.requests[2][-1].content
    assert "ran out" in model.requests[3][1].content


async def test_format_errors_are_recorded_not_executed_and_end_the_rollout(tmp_path):
    bad = turn("W0", "touch ran </tool>\n<tool: bash> touch ran")
    good = turn("W0", "ls")
    candidate, model, records = await play(tmp_path, (bad, good, bad, bad, ""), {"limits": {"format_errors": 3}})
    assert candidate.exit_status == "format_errors"
    assert candidate.format_errors == 4
    errors = [record.format_error for record in of(records, "turn")]
    assert errors[1] is None
    assert "2 <tool: bash> actions" in errors[0]
    assert errors[4] == "the reply is empty"
    assert "Nothing was executed: there are 2" in model.requests[1][-1].content
    assert "ran" not in model.requests[2][-1].content.split("<output>")[1]


async def test_the_memo_is_asked_for_when_the_exit_carries_none(tmp_path):
    memo = turn("HANDOVER", memo="asked memo")
    answers = (HAPPY[1], turn("COMPLETE"), memo, turn("W0", "cat /share/ISSUE_REPRODUCE.md"))
    candidate, model, records = await play(tmp_path, answers, {"limits": {"steps": 4}})
    assert "answer with `WORKFLOW: HANDOVER`" in model.requests[2][-1].content
    assert of(records, "phase")[0].memo == "asked memo"
    assert of(records, "turn")[-1].observation == "<returncode>0</returncode>\n<output>\nasked memo\n</output>"
    assert candidate.turns == 4


async def test_a_memo_written_by_an_action_is_kept_as_it_is(tmp_path):
    write = turn("COMPLETE", "echo mine > /share/ISSUE_REPRODUCE.md; echo x > /share/reproduce.md")
    _, model, records = await play(tmp_path, (write, turn("W0", "true")), {"limits": {"steps": 2}})
    assert of(records, "phase")[0].memo == "mine\n"
    assert len(model.requests) == 2
    assert "```\nmine\n```" in model.requests[1][1].content


async def test_without_any_memo_the_last_thought_is_handed_over(tmp_path):
    answers = (HAPPY[1], turn("COMPLETE", thought="my last words"), "nonsense", turn("W0", "true"))
    candidate, _, records = await play(tmp_path, answers, {"limits": {"steps": 4}})
    assert of(records, "phase")[0].memo == "my last words"
    assert candidate.format_errors == 1


@pytest.mark.parametrize("kept", ["of the handover", "of a file, later"])
async def test_a_memo_of_this_visit_is_not_replaced_by_its_last_thought(tmp_path, kept):
    """The turn limit comes with nothing to answer, so no memo can be asked for."""
    write = f"echo {kept} > /share/ISSUE_REPRODUCE.md"
    first = turn("W0", write if "file" in kept else "true")
    answers = (first, turn("HANDOVER", memo=kept, thought="last words"), turn("W0", "true"))
    options = {"phases": {"ISSUE_REPRODUCE": {"turns": 2}}, "limits": {"steps": 3}}
    _, model, records = await play(tmp_path, answers, options)
    assert of(records, "phase")[0].memo.strip() == kept
    assert kept in model.requests[-1][1].content


async def test_a_memo_of_an_earlier_visit_is_not_taken_for_this_ones(tmp_path):
    once = {"turns": 1, "on_giveup": "ISSUE_REPRODUCE"}
    answers = (
        turn("GIVEUP", memo="first memo"),
        turn("GIVEUP", thought="second words"),
        "nonsense",
        turn("W0", "true"),
    )
    options = {"phases": {"ISSUE_REPRODUCE": once}, "limits": {"steps": 4}}
    _, _, records = await play(tmp_path, answers, options)
    assert [record.memo for record in of(records, "phase")[:2]] == ["first memo", "second words"]


async def test_nothing_is_executed_in_a_turn_that_was_asked_for_a_memo(tmp_path):
    remove = turn("W0", "rm -f /share/reproduce.md; touch /share/ran")
    answers = (HAPPY[1], turn("COMPLETE", thought="it is there"), remove, turn("W0", "ls /share"))
    candidate, _, records = await play(tmp_path, answers, {"limits": {"steps": 4}})
    asked, after = of(records, "turn")[2:]
    assert "only the memo was asked for" in asked.format_error
    assert (asked.action, candidate.format_errors) == (None, 1)
    assert of(records, "phase")[0].memo == "it is there"
    assert "\nreproduce.md\n" in after.observation
    assert "\nran\n" not in after.observation


CUT = [
    ('<tool: bash> touch ran; grep -n "</tool>\n" a.xml', "is never closed"),
    ("<tool: bash> touch ran; echo it's </tool>", "is never closed"),
    ("<tool: bash> touch ran\ncat > a.xml <<'EOF'\n<tool>\n</tool>\nEOF", "not ended by a line 'EOF'"),
    ("```bash\ntouch ran; cat > R.md <<EOF\n```python\nx\n```\n", "not ended by a line 'EOF'"),
    ("```bash\ntouch ran\npython -c '\n```\nprint(1)", "is never closed"),
]


@pytest.mark.parametrize(("answer", "reason"), CUT)
async def test_half_a_command_is_a_format_error_and_nothing_of_it_runs(tmp_path, answer, reason):
    form = "markdown_bash" if "```" in answer else "tool_bash"
    look = "```bash\nls\n```" if "```" in answer else "<tool: bash> ls </tool>"
    head = "WORKFLOW: W0\nTHOUGHT: x\nFINAL_ANSWER:\n"
    options = {"action_format": form, "limits": {"steps": 2}}
    candidate, model, records = await play(tmp_path, (head + answer, head + look), options)
    cut, after = of(records, "turn")
    assert reason in cut.format_error
    assert (cut.action, candidate.format_errors) == (None, 1)
    assert reason in model.requests[1][-1].content
    assert after.observation == "<returncode>0</returncode>\n<output>\ncalc.py\ntests\n</output>"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("# don't\necho a", "a"),
        ("""echo "$(echo 'a"b')" """, 'a"b'),
        ("echo $((1<<2))", "4"),
        ("cat <<-'E O'\n\tx\n\tE O", "x"),
        ('cat <<A; cat <<"B"\n1\nA\n2\nB', "1\n2"),
        ('cat <<<"it\'s"', "it's"),
        ("case x in x) echo \"`echo 'q'`\";; esac", "q"),
    ],
)
async def test_a_whole_command_is_never_taken_for_half_of_one(tmp_path, command, output):
    _, _, records = await play(tmp_path, [turn("W0", command)], {"limits": {"steps": 1}})
    assert of(records, "turn")[0].observation == f"<returncode>0</returncode>\n<output>\n{output}\n</output>"


def test_a_plain_command_costs_no_process_to_check():
    document = "cat > a.py <<'EOF' && python a.py\nit's\nEOF\necho \"$(cat a)\""
    for command in ("ls -l", FIX, NEW_TEST, REGRESSION, 'grep "it\'s" a', document, "cat <<EOF\nEOF"):
        assert not looks_cut(command)


async def test_handover_rebuilds_the_conversation_from_the_share(tmp_path):
    answers = (
        turn("W0", "echo first-output"),
        turn("W1", "echo kept > /share/notes.txt"),
        turn("HANDOVER", memo="go on from here"),
        turn("HANDOVER"),
        turn("W2", "true"),
    )
    _, model, records = await play(tmp_path, answers, {"limits": {"steps": 5, "handover_turns": 2}})
    assert "This conversation is long" in model.requests[2][-1].content
    fresh = model.requests[3]
    assert len(fresh) == 2
    assert "go on from here" in fresh[1].content
    assert "`notes.txt` (5 bytes)" in fresh[1].content
    assert header(fresh) | {"visit": 1} == header(model.requests[0])
    assert "HANDOVER is refused" in model.requests[4][-1].content
    assert [record.reason for record in of(records, "context")] == ["enter", "handover"]


async def test_the_share_is_archived_at_each_phase_exit_by_difference(tmp_path):
    _, _, records = await play(tmp_path, HAPPY)
    first, second = ({file.path: file for file in record.share} for record in of(records, "phase")[:2])
    assert first["reproduce.md"].text == "it gives -1\n"
    assert first["ISSUE_REPRODUCE.md"].text == "It gives -1; see reproduce.md.\n"
    assert second["reproduce.md"].text is None
    assert second["reproduce.md"].sha256 == first["reproduce.md"].sha256
    assert second["fail_to_pass.txt"].text == "tests/test_uchide_r01_s1001.py::test_add\n"


FLOODS = {
    "many bytes": "head -c 60000 /dev/urandom > /share/a; for n in {1..420}; do cp /share/a /share/0$n.md; done",
    "more files than are listed": "seq 6500 | split -l 1 -a 4 --additional-suffix=.md - /share/0",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_memos_and_products_are_read_whatever_else_is_in_the_share(tmp_path, flood):
    last = EARLY[-1]
    answers = (*EARLY[:-1], turn("W0", flood), last, turn("W0", "true"))
    _, model, records = await play(tmp_path, answers, {"limits": {"steps": len(answers)}})
    exits = of(records, "phase")
    for memo in ("It gives -1; see reproduce.md.", "One test.", "calc.py:2.", "One regression test."):
        assert f"```\n{memo}\n```" in model.requests[-1][1].content
    share = {file.path: file for file in exits[3].share}
    assert share["pass_to_pass.txt"].text == "tests/test_calc.py::test_zero\n"
    assert share["reproduce.md"].sha256
    assert list(share) == sorted(share)
    assert len(share) <= 5000


async def test_files_of_any_name_are_read(tmp_path):
    names = """'a b' $'new\\nline' '--x' '-d/y' $'\\xff' "$(printf 'é%.0s' {1..100})" """
    make = f'cd /share; mkdir -p -- -d; for f in {names}; do echo z > "./$f"; done'
    answers = (HAPPY[1], turn("W0", make), HAPPY[2])
    _, _, records = await play(tmp_path, (*answers, turn("W0", "true")), {"limits": {"steps": 4}})
    share = {file.path: file.text for file in of(records, "phase")[0].share}
    named = ["a b", "new\nline", "--x", "-d/y", "\\xff", "é" * 100]
    assert {name: share.get(name) for name in named} == dict.fromkeys(named, "z\n")


async def test_repeated_actions_draw_a_warning(tmp_path):
    answers = [turn(f"W{n}", "false") for n in range(3)] + [turn("W3", "true")] * 2
    _, model, _ = await play(tmp_path, answers, {"limits": {"steps": 5}})
    assert "Warning" not in model.requests[2][-1].content
    assert "same action 3 times in a row" in model.requests[3][-1].content
    assert "Warning" not in model.requests[4][-1].content


@pytest.mark.parametrize(
    ("command", "observation"),
    [
        ("exit 7", "<returncode>7</returncode>\n<output>\n\n</output>"),
        ("printf 'a\\xe2b\\xff'", "<returncode>0</returncode>\n<output>\na\ufffdb\ufffd\n</output>"),
        ("printf out; printf err >&2", "<returncode>0</returncode>\n<output>\nouterr\n</output>"),
        ("sleep 9", "<returncode>timeout</returncode>\n<output>\n\n</output>"),
    ],
)
async def test_observations(tmp_path, command, observation):
    options = {"limits": {"steps": 1, "action_timeout_s": 1.0}}
    _, _, records = await play(tmp_path, [turn("W0", command)], options)
    assert of(records, "turn")[0].observation == observation


async def test_a_long_observation_keeps_head_and_tail(tmp_path):
    command = "python3 -c \"print('A' * 500 + 'x' * 9000000 + 'B' * 500)\""
    options = {"limits": {"steps": 1, "output_chars": 1000}}
    _, _, records = await play(tmp_path, [turn("W0", command)], options)
    seen = of(records, "turn")[0].observation
    gone = "[... 199,000 characters (0 lines) and 8,801,001 more bytes left out ...]"
    assert "A" * 500 + f"\n{gone}\n" + "B" * 499 in seen
    assert len(seen) < 1200


async def test_a_failing_model_propagates_and_the_trajectory_says_so(tmp_path):
    task = make_task(tmp_path)
    with pytest.raises(ModelError, match="script is over"):
        await agents.create({}).rollout(task, Scripted(HAPPY[:2]), LocalProvider())
    records = list(trajectory.read(task.trajectory))
    assert records[-1].exit_status == "infra"
    assert records[-1].error == "the script is over"


async def test_an_agent_that_removes_the_repository_is_a_candidate_with_a_warning(tmp_path):
    candidate, _, _ = await play(tmp_path, [turn("W0", "rm -rf .git")], {"limits": {"steps": 1}})
    assert candidate.patch == ""
    assert "nothing could be collected" in candidate.warnings[-1]


async def test_tools_of_agent_and_model_are_shown_and_announced(tmp_path):
    provider, model = LocalProvider(), Scripted([turn("W0", "true")], tools=("try_edits",))
    await agents.create({"limits": {"steps": 1}}).rollout(make_task(tmp_path), model, provider)
    assert {"run_tests.py", "line_trace.py", "_tracing.py", "line_edit.py", "try_edits"} <= set(provider.specs[0].tools)
    assert header(model.requests[0])["tools"] == ["run_tests", "try_edits"]
    assert "python $UCHIDE_TOOLS/try_edits" in model.requests[0][0].content


async def test_an_unknown_tool_of_a_model_is_a_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="no sandbox tool 'hammer'"):
        await agents.create({}).rollout(make_task(tmp_path), Scripted([], tools=("hammer",)), LocalProvider())
