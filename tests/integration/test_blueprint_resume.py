"""A blueprint rollout that is killed, again and again, comes to the end that an undisturbed one comes to."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from dataclasses import replace as changed

import pytest
from support.blueprint import ABS, BROKEN, DETOUR, DETOUR_NODES, HAPPY, Player, header, make_unittest_task, play
from support.local import LocalProvider

from uchide import agents
from uchide.agents import trajectory
from uchide.agents.checkpoint import Checkpoint, Counters
from uchide.errors import ModelError
from uchide.records import Candidate, Usage
from uchide.records.base import canonical

SHORT = {**HAPPY, "REPRODUCE_ISSUE.1": DETOUR["REPRODUCE_ISSUE.1"]}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Player):
    """Kills the process when one certain reply is asked for (`NODE.VISIT.REPLY`)."""

    when = ""

    async def complete(self, request):
        if request.role == "agent":
            replies = sum(message.role == "assistant" for message in request.messages)
            if self.when == f"{request.place}.{header(request)['visit']}.{replies}":
                die()
        return await super().complete(request)


def worker(folder, task, when):
    """One rollout in a process of its own, killed right after or before a node is saved, within a node, or never."""
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    save = Checkpoint.save

    def dying(self, *args):
        if when == "saved":
            save(self, *args)
        die()

    if when in ("saved", "unsaved"):
        Checkpoint.save = dying
    model = Dying(DETOUR)
    model.when = when
    candidate, _, _ = asyncio.run(play(folder, task=task, model=model))
    (folder / "candidate.json").write_text(candidate.model_dump_json())
    (folder / "calls").write_text(str(len(model.requests)))


def work(folder, task, when):
    """Run a worker; the number of model calls it made, or None when it was killed."""
    process = multiprocessing.get_context("fork").Process(target=worker, args=(folder, task, when))
    process.start()
    process.join(120)
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0
    return int((folder / "calls").read_text())


def left(folder):
    """What a rollout left, without the times."""
    candidate = Candidate.model_validate_json((folder / "candidate.json").read_text())
    (file,) = (folder / "trajectories").iterdir()
    return canonical(candidate), [_timeless(record) for record in trajectory.read(file)]


def _timeless(record):
    return {name: value for name, value in record.model_dump(mode="json").items() if name != "t"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert work(folder, make_unittest_task(folder, scratch=folder / "scratch/state.sqlite"), "never") == 20
    return left(folder)


def test_nodes_are_left_by_declared_edges_and_the_records_say_what_decided(undisturbed):
    candidate, records = undisturbed
    assert [record["phase"] for record in records if record["kind"] == "phase"] == list(DETOUR_NODES)
    steps = [(record["phase"], record["exit"], record["next"]) for record in records if record["kind"] == "phase"]
    assert set(steps[:-1]) <= {tuple(edge) for edge in records[0]["edges"]}
    assert [step for step in steps if step[0] == "VERIFY"] == [
        ("VERIFY", "regressed", "GATHER_CONTEXT"),
        ("VERIFY", "unmet", "IMPLEMENT"),
        ("VERIFY", "all_pass", "END"),
    ]
    assert steps[-1] == ("END", "complete", None)
    assert '"exit_status":"completed"' in candidate


def test_each_attempt_is_told_what_it_has_to_know(undisturbed):
    _, records = undisturbed
    opened = [record for record in records if record["kind"] == "context"]
    first, second, third = (r["messages"][1]["content"] for r in opened if r["phase"] == "IMPLEMENT")
    assert "Failing tests for this issue" in first
    assert "assert add(-1, -2) == -3" in first
    assert "The change so far" not in first
    assert "attempt 2 of 5" in second
    assert "Failing tests for this issue" not in second
    assert "`tests.test_calc.TestCalc.test_double` (failed)" in second
    assert f"+    {BROKEN}" in second
    assert "- line 2: subtracts\n- line 6: double needs add\n" in second
    assert "TestIssue.test_negative` (failed)" in third
    assert "test_double" not in third
    assert f"+    {ABS}" in third
    _, again = (r["messages"][1]["content"] for r in opened if r["phase"] == "GATHER_CONTEXT")
    assert "broke because of it" in again
    assert "tests.test_calc.TestCalc.test_double" in again


def test_killed_between_any_two_nodes_and_within_some_it_comes_to_the_same_end(undisturbed, tmp_path):
    task = make_unittest_task(tmp_path, scratch=tmp_path / "scratch/state.sqlite")
    within = {2: ("REPRODUCE_ISSUE.1.1", "unsaved"), 4: ("IMPLEMENT.1.2",), 9: ("IMPLEMENT.3.0",)}
    for number, _ in enumerate(DETOUR_NODES, start=1):
        for when in within.get(number, ()):
            assert work(tmp_path, task, when) is None
        assert work(tmp_path, task, "saved") is None
    assert work(tmp_path, task, "never") == 0
    assert left(tmp_path) == undisturbed


class Failing(Player):
    """A model whose server dies once."""

    failed = False

    async def complete(self, request):
        if request.place == "IMPLEMENT" and not self.failed:
            self.failed = True
            raise ModelError("gone")
        return await super().complete(request)


async def test_a_retry_in_the_same_process_goes_on_from_the_last_node(tmp_path):
    task = make_unittest_task(tmp_path, scratch=tmp_path / "s/state.sqlite")
    model = Failing(SHORT)
    with pytest.raises(ModelError):
        await play(tmp_path, task=task, model=model)
    before = len(model.requests)
    candidate, _, _ = await play(tmp_path, task=task, model=model)
    assert candidate.exit_status == "completed"
    assert candidate.usage.calls == len(model.requests) == before + 2
    assert [header(request)["phase"] for request in model.requests[before:]] == ["IMPLEMENT"] * 2
    assert (tmp_path / "s/state.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("harm", ["garbage", "cut", "foreign"])
async def test_a_file_that_cannot_be_used_is_replaced_with_a_notice(tmp_path, harm):
    task = make_unittest_task(tmp_path, scratch=tmp_path / "state.sqlite")
    with pytest.raises(ModelError):
        await play(tmp_path, {}, task=task)
    file = task.scratch
    if harm == "garbage":
        file.write_bytes(b"no database" * 1000)
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:5000])
    else:
        task = changed(task, seed=7)
    candidate, _, records = await play(tmp_path, {"REPRODUCE_ISSUE.1": ("x",)}, {"limits": {"steps": 1}}, task=task)
    assert candidate.exit_status == "step_limit"
    assert candidate.phases[0] == "LOAD_TASK"
    expected = "another task wrote it" if harm == "foreign" else "it is damaged"
    assert [expected in warning for warning in candidate.warnings] == [True]
    assert records[-1].warnings == candidate.warnings


HARM = ("UPDATE node SET state = '{\"a\": 1}'", "DELETE FROM files", "UPDATE node SET records = x'00'")


@pytest.mark.parametrize("harm", HARM)
async def test_a_file_of_ours_that_is_damaged_inside_is_replaced_too(tmp_path, harm):
    task = make_unittest_task(tmp_path, scratch=tmp_path / "state.sqlite")
    for _ in range(2):
        with pytest.raises(ModelError):
            await play(tmp_path, {}, task=task)
        with sqlite3.connect(task.scratch) as database:
            database.execute(harm)
    records = list(trajectory.read(task.trajectory))
    assert "the rollout began anew: it is damaged" in records[-1].warnings[0]
    assert [record.phase for record in records if record.kind == "phase"] == ["LOAD_TASK"]


def test_a_checkpoint_gives_back_what_was_saved(tmp_path):
    counters = Counters(
        turns=3,
        format_errors=1,
        usage=Usage(calls=4, cost=0.5),
        known_cost=0.5,
        phases=("A",),
        warnings=("w",),
        elapsed_s=1.5,
    )
    first = Checkpoint(tmp_path / "c/s.sqlite", "me")
    assert first.load() is None
    records = [trajectory.PhaseRecord(phase="A", visit=1, exit="x", next="B", turns=n) for n in range(3)]
    first.save({"n": 1}, counters, {"tree": b"\0\xff", "share": b""}, records[:2])
    first.save({"n": 2}, counters, {"tree": b"2", "share": b"s"}, records[2:])
    first.close()
    second = Checkpoint(tmp_path / "c/s.sqlite", "me")
    saved = second.load()
    assert saved is not None
    assert (saved.state, saved.counters, saved.records) == ({"n": 2}, counters, tuple(records))
    assert saved.files == {"tree": b"2", "share": b"s"}
    assert second.notice == ""
    second.close()
    third = Checkpoint(tmp_path / "c/s.sqlite", "you")
    assert third.load() is None
    assert "another task wrote it" in third.notice
    third.close()


def test_the_agent_needs_no_scratch_file(tmp_path):
    task = make_unittest_task(tmp_path)
    agent = agents.create({"name": "blueprint", "limits": {"steps": 1}})
    candidate = asyncio.run(agent.rollout(task, Player({"REPRODUCE_ISSUE.1": ("x",)}), LocalProvider()))
    assert candidate.exit_status == "step_limit"
