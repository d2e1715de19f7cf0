"""Recording any model and replaying it: byte for byte, whatever machines differ in, and an error where it diverges."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.local import LocalProvider
from support.rollouts import HAPPY, make_task
from support.scripted import Scripted

from uchide import agents, llm
from uchide.agents import trajectory
from uchide.agents.observation import shorten
from uchide.errors import ConfigError, ModelError, SandboxError, StoreError
from uchide.llm.fingerprint import file_stem, normal
from uchide.llm.recording import Recorder
from uchide.llm.transcript import read
from uchide.paths import Root
from uchide.pipeline.planner import plan_experiment
from uchide.protocols import ChatReply, ChatRequest, Message, Sampling, ToolCall
from uchide.records import Usage

ROOT = Path(__file__).parents[2]


def request(*texts, session="main.r1.a", place="P", role="agent", seed=1):
    """System, then user and assistant in turn."""
    roles = ("system", *("user", "assistant") * len(texts))
    messages = [Message(role_, text) for role_, text in zip(roles, texts, strict=False)]
    return ChatRequest(messages, Sampling(seed), session=session, place=place, role=role)


def replay(folder, **options):
    return llm.create({"name": "replay", "from": str(folder), **options})


async def record(folder, requests, answers=None, **options):
    model = Recorder(Scripted(answers or [f"answer {n}" for n in range(len(requests))], **options), folder)
    return [await model.complete(each) for each in requests]


def lines(folder, stem="main.r1.a"):
    return list(read(folder / f"{stem}.jsonl"))


# --- byte for byte ---------------------------------------------------------------------------------------------------
async def test_what_was_said_is_said_again_byte_for_byte(tmp_path):
    said = ChatReply(
        "a\r\n\u2028\x00 \U0001f600",
        Usage(calls=1, prompt_tokens=5, cached_tokens=2, cost=0.25),
        "tool_calls",
        "some/model",
        (ToolCall("id-1", "bash", '{"command": "ls'),),
    )
    asked = [request("s", "u"), request("s", "u", "a", "v")]
    await record(tmp_path, asked, [said, "second"])
    model = replay(tmp_path)
    assert await model.complete(asked[0]) == said
    assert (await model.complete(asked[1])).text == "second"


async def test_tools_and_windows_are_those_of_the_recorded_model(tmp_path):
    await record(tmp_path, [request("s", "u")], tools=("try_edits",), tokens=4096)
    model = replay(tmp_path)
    assert model.tools == ("try_edits",)
    assert await model.window("P", "agent") == 4096
    assert await model.window("Q", "agent") is None


async def test_recordings_of_models_with_different_tools_do_not_mix(tmp_path):
    await record(tmp_path, [request("s", session="main.r1.a")], tools=("try_edits",))
    await record(tmp_path, [request("s", session="main.r1.b")])
    with pytest.raises(ConfigError, match="different tools"):
        replay(tmp_path)


async def test_a_recorded_rollout_of_the_agent_is_repeated_exactly(tmp_path):
    task = make_task(tmp_path)
    await agents.create({}).rollout(task, Recorder(Scripted(HAPPY), tmp_path / "rec"), LocalProvider())
    first = list(trajectory.read(task.trajectory))
    again = await agents.create({}).rollout(task, replay(tmp_path / "rec"), LocalProvider())
    second = list(trajectory.read(task.trajectory))
    assert again.exit_status == "completed"
    assert [r.reply for r in second if r.kind == "turn"] == [r.reply for r in first if r.kind == "turn"] == list(HAPPY)


async def test_roles_have_sequences_of_their_own(tmp_path):
    plan, more = request("s", "u", role="planner"), request("s", "u", "plan", "v", role="planner")
    form = request("f", "draft", role="formatter")
    await record(tmp_path, [plan, form, more, form], ["plan", "one", "more", "two"])
    model = replay(tmp_path)
    said = [(await model.complete(each)).text for each in (plan, more, form, form)]
    assert said == ["plan", "more", "one", "two"]


async def test_a_file_grows_with_what_is_said_and_not_with_how_often(tmp_path):
    texts = ["s" * 2000]
    for _ in range(40):
        texts += ["u" * 1000, "a" * 1000]
    asked = [request(*texts[: 2 * n]) for n in range(1, 41)]
    await record(tmp_path, asked)
    assert (tmp_path / "main.r1.a.jsonl").stat().st_size < 150_000
    assert [len(line.messages) for line in lines(tmp_path)] == [2 * n for n in range(1, 41)]


# --- what counts as the same -----------------------------------------------------------------------------------------
SAME = [
    ("== 3 passed in 0.12s ==", "== 3 passed in 62.07s =="),
    ("====== 3 passed in 9.99s ======", "===== 3 passed in 10.00s ====="),
    ("0.03s call     t.py::a", "1.20s call     t.py::a"),
    ("passed in 62.15s (0:01:02)", "passed in 3725.00s (1:02:05)"),
    ("real 0m0.123s", "real 1m2.5s"),
    ("finished in 3 seconds", "finished in 12 seconds"),
    ("cpu seconds: 2.0", "cpu seconds: 11.4"),
    ("seconds=2", "seconds=13"),
    ("- Wall seconds : 0.5", "- Wall seconds : 12"),
    ("elapsed_seconds: 3.25e-05", "elapsed_seconds: 1"),
    ("ran for 9 seconds", "ran for 10 seconds"),
    ("it took 850 ms", "it took 1,020 ms"),
    ("time: 2 s", "time: 2.25 s"),
    ("cpu time: 4s", "cpu time: 12s"),
    ("elapsed: 0.2", "elapsed: 14"),
    ("user 0.01\nsys 0.00", "user 12.34\nsys 1.00"),
    ("/tmp/tmpab12cd_x/f.py", "/tmp/tmpzz99aa_y/f.py"),
    ("/tmp/tmp.8gHx2Qa/out", "/tmp/tmp.Xy7fQ22/out"),
    ("/var/x/pytest-of-ann/pytest-7/test_a0", "/var/x/pytest-of-bob/pytest-12/test_a0"),
    ("<A object at 0x7f12ab34cd56>", "<A object at 0x7fff00112233>"),
    ("2026-01-02 03:04:05,123 INFO", "2025-12-31 23:59:59,001 INFO"),
    ("at 2026-01-02T03:04:05Z", "at 2026-01-02T03:04:06.5+01:00"),
    ("-rw-r--r-- 1 u u 5 Dec  1 02:53 a", "-rw-r--r-- 1 u u 5 Jan 12 12:00 a"),
    ("- `verify.log` (99 bytes)", "- `verify.log` (1,100 bytes)"),
    (shorten("a 1.5s\n" + "row of text\n" * 20, 80), shorten("a 11.5s\n" + "row of text\n" * 20, 80)),
    ("[pid 1234] killed", "[pid 9] killed"),
    ("==1234== Memcheck", "==77== Memcheck"),
]
OTHER = [
    ("3 passed in 0.12s", "4 passed in 0.12s"),
    ("/tmp/tmpab12cd_x/f.py", "/tmp/tmpab12cd_x/g.py"),
    ("line 12", "line 13"),
    (shorten("a\n" + "row of text\n" * 20, 80), shorten("b\n" + "row of text\n" * 20, 80)),
    ("1.5 apples", "1.6 apples"),
    ("time: 2", "time: 3"),
    ("seconds: int", "seconds: str"),
    ("retries: 2", "retries: 3"),
    ("for 3 secondary keys", "for 4 secondary keys"),
    ("user 12", "user 13"),
    ("version 2.7.1", "version 2.7.2"),
    ("0x1f", "0x2f"),
    ("assert 60 == s", "assert 61 == s"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_machines_differ_in_is_neutral(one, other):
    assert normal(one) == normal(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_everything_else_counts(one, other):
    assert normal(one) != normal(other)


@pytest.mark.parametrize("piece", ["x", "1,", "1", "1.", "=", "/tmp", "0x", "12:", "pid ", "\n[... 1 left out"])
def test_the_time_it_takes_grows_with_the_text_and_not_faster(piece):
    start = time.process_time()
    normal(piece * (100_000 // len(piece)))
    assert time.process_time() - start < 2.0


@given(st.text(alphabet=st.characters(exclude_categories=("Nd", "Cs"), exclude_characters="=-_/")))
def test_text_without_digits_paths_and_rulers_is_left_alone(text):
    assert normal(text) == text


@given(st.text(), st.text())
def test_names_of_files_are_safe_and_tell_sessions_apart(one, other):
    stem = file_stem(one)
    assert stem
    assert not stem.startswith(".")
    assert not set(stem) & set("/\\ \n\0")
    assert (one == other) == (stem == file_stem(other))


async def test_normal_replays_what_differs_between_machines_and_exact_does_not(tmp_path):
    await record(tmp_path, [request("s", "1 passed in 0.12s")])
    now = request("s", "1 passed in 0.34s", seed=2)
    assert (await replay(tmp_path).complete(now)).text == "answer 0"
    with pytest.raises(ModelError, match=r"seed 1, now it is 2"):
        await replay(tmp_path, match="exact").complete(now)
    with pytest.raises(ModelError, match=r"message 2 \(user\) differs.*0\.12s.*0\.34s"):
        await replay(tmp_path, match="exact").complete(replace(now, sampling=Sampling(1)))
    other = request("s", "2 failed", place="Q")
    assert (await replay(tmp_path, match="order").complete(other)).text == "answer 0"


# --- divergence ------------------------------------------------------------------------------------------------------
async def test_a_divergence_says_where_and_what(tmp_path):
    texts = ["s", "u", "a", "first line\nfound in calc.py:2"]
    await record(tmp_path, [request(*texts[:2]), request(*texts)])
    model = replay(tmp_path)
    await model.complete(request(*texts[:2]))
    with pytest.raises(ModelError) as caught:
        await model.complete(request("s", "u", "a", "first line\nfound in calc.py:7"))
    text = str(caught.value)
    assert "main.r1.a, answer 2 (P, role agent): message 4 (user) differs: line 2" in text
    assert "calc.py:2'" in text
    assert "calc.py:7'" in text
    assert not caught.value.retryable


async def test_a_missing_answer_a_longer_request_and_another_place_are_told_apart(tmp_path):
    await record(tmp_path, [request("s", "u")])
    model = replay(tmp_path)
    with pytest.raises(ModelError, match="recorded in P"):
        await model.complete(request("s", "u", place="Q"))
    with pytest.raises(ModelError, match="has 2 messages, this one 4"):
        await model.complete(request("s", "u", "a", "v"))
    await model.complete(request("s", "u"))
    with pytest.raises(ModelError, match=r"answer 2 .*ends after 1 answers of this role"):
        await model.complete(request("s", "u", "answer 0", "v"))


async def test_a_session_is_found_in_another_arm_or_the_near_ones_are_named(tmp_path):
    await record(tmp_path, [request("s", session="main.r1.calc-1")])
    assert (await replay(tmp_path).complete(request("s", session="ablated.r1.calc-1"))).text == "answer 0"
    with pytest.raises(ModelError, match=r"no recording of main.r1.calc-2; near ones: main.r1.calc-1"):
        await replay(tmp_path).complete(request("s", session="main.r1.calc-2"))
    await record(tmp_path, [request("s", session="other.r1.calc-1")])
    with pytest.raises(ModelError, match=r"several arms have one: main.r1.calc-1, other.r1.calc-1"):
        await replay(tmp_path).complete(request("s", session="ablated.r1.calc-1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "model.from: Field required"),
        ({"from": "."}, r"no recording \(\*.jsonl\)"),
        ({"from": "nowhere"}, "there is no such folder"),
        ({"from": ".", "match": "loosely"}, "model.match"),
        ({"from": ".", "mode": 1}, "model.mode"),
    ],
)
def test_options_are_checked(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        llm.create({"name": "replay", **options})


async def test_recordings_that_change_after_planning_are_refused(tmp_path):
    await record(tmp_path / "rec", [request("s", "u")])
    config = llm.with_files({"name": "replay", "from": "rec"}, tmp_path)
    assert config["from"]["path"] == "rec"
    llm.create(config, root=tmp_path)
    await record(tmp_path / "rec", [request("s", "u")], ["another answer"])
    assert llm.with_files({"name": "replay", "from": "rec"}, tmp_path) != config
    with pytest.raises(ConfigError, match="have changed since this was planned"):
        llm.create(config, root=tmp_path)


def test_folders_of_overrides_are_known_by_content_too(tmp_path):
    asyncio.run(record(tmp_path / "rec", [request("s", "u")]))
    config = {"name": "mutator", "for": {"CODE_FIX": {"name": "replay", "from": "rec"}, "summary": "mutator"}}
    found = llm.with_files(config, tmp_path)["for"]
    assert set(found["CODE_FIX"]["from"]) == {"path", "digest"}
    assert found["summary"] == "mutator"


# --- files -----------------------------------------------------------------------------------------------------------
async def test_a_half_written_tail_is_left_out_with_a_notice(tmp_path):
    asked = [request("s", "u"), request("s", "u", "a", "v")]
    await record(tmp_path, asked)
    path = tmp_path / "main.r1.a.jsonl"
    whole = path.read_bytes()
    for cut in (1, 30, len(whole.splitlines()[1])):
        path.write_bytes(whole[:-cut])
        notices = []
        assert len(list(read(path, notices.append))) == 1
        assert "line 2 is half-written" in notices[0]
        assert (await replay(tmp_path).complete(asked[0])).text == "answer 0"
    path.write_bytes(whole[:-10])
    await record(tmp_path, [asked[1]], ["again"])  # resumed where it was killed
    assert [line.exchange.reply.text for line in read(path)] == ["answer 0", "again"]


async def test_a_damaged_line_before_the_last_is_an_error(tmp_path):
    await record(tmp_path, [request("s", "u"), request("s", "u", "a", "v")])
    path = tmp_path / "main.r1.a.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first.replace(b'"schema_version":1', b'"schema_version":7') + second)
    with pytest.raises(StoreError, match="line 1: schema_version"):
        list(read(path))
    path.write_bytes(second)
    with pytest.raises(StoreError, match="line 1"):
        list(read(path))


@pytest.mark.parametrize(
    "data", [b"{}\n", b"no recording\n", b"\xff\n", b"version https://git-lfs.github.com/spec/v1\n"]
)
async def test_a_recorder_sets_an_unreadable_file_aside_with_a_notice(tmp_path, caplog, data):
    path = tmp_path / "main.r1.a.jsonl"
    for number in (1, 2):
        path.write_bytes(data)
        await record(tmp_path, [request("s", "u")])
        assert [line.exchange.reply.text for line in read(path)] == ["answer 0"]
        assert path.with_name(f"{path.name}.unreadable.{number}").read_bytes() == data
        assert f"it is now {path.name}.unreadable.{number}" in caplog.text
    assert (await replay(tmp_path).complete(request("s", "u"))).text == "answer 0"


async def test_of_two_recorders_of_one_rollout_the_earlier_ends_and_the_file_is_readable(tmp_path):
    asked = [request("s", "u"), request("s", "u", "a", "v"), request("s", "u", "a", "v", "b", "w")]
    one = Recorder(Scripted(["one", "one more"]), tmp_path)
    other = Recorder(Scripted(["other, longer", "more", "last"]), tmp_path)
    await one.complete(asked[0])
    await other.complete(asked[0])
    with pytest.raises(StoreError, match="another process records the same rollout"):
        await one.complete(asked[1])
    for each in asked[1:]:
        await other.complete(each)
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["other, longer", "more", "last"]


async def test_secrets_are_redacted_and_do_not_matter_for_the_match(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2-hunter2")
    asked = request("s", "the key is hunter2-hunter2")
    await record(tmp_path, [asked], ["use hunter2-hunter2"])
    assert b"hunter2" not in (tmp_path / "main.r1.a.jsonl").read_bytes()
    assert (await replay(tmp_path).complete(asked)).text == "use [redacted]"


@pytest.mark.parametrize("word", ["system", "assistant", "context", "CODE_FIX", "completed", "content"])
async def test_a_secret_that_is_a_word_of_the_format_leaves_the_files_readable(tmp_path, monkeypatch, word):
    task = make_task(tmp_path)
    await agents.create({}).rollout(task, Recorder(Scripted(HAPPY), tmp_path / "plain"), LocalProvider())
    before = list(trajectory.read(task.trajectory))
    monkeypatch.setenv("X_AUTH_MODE", word)
    await agents.create({}).rollout(task, Recorder(Scripted(HAPPY), tmp_path / "rec"), LocalProvider())
    after = list(trajectory.read(task.trajectory))
    assert [(r.kind, getattr(r, "phase", "")) for r in after] == [(r.kind, getattr(r, "phase", "")) for r in before]
    assert [m.role for r in after if r.kind == "context" for m in r.messages] == [
        m.role for r in before if r.kind == "context" for m in r.messages
    ]
    assert all(word not in r.reply for r in after if r.kind == "turn")
    (path,) = (tmp_path / "rec").iterdir()
    assert all(line.exchange.role == "agent" for line in read(path))
    assert {m.role for line in read(path) for m in line.messages} == {"system", "user", "assistant"}
    assert all(word not in m.content for line in read(path) for m in line.messages)
    again = await agents.create({}).rollout(task, replay(tmp_path / "rec"), LocalProvider())
    if not any(word in text for text in HAPPY):
        assert again.exit_status == "completed"


async def test_concurrent_rollouts_have_files_of_their_own(tmp_path):
    model = Recorder(Scripted(["same"] * 60), tmp_path)

    async def rollout(number):
        texts = ["s", f"task {number}"]
        for _ in range(3):
            await model.complete(request(*texts, session=f"main.r1.t{number}"))
            await asyncio.sleep(0)
            texts += ["same", "next"]

    await asyncio.gather(*(rollout(number) for number in range(20)))
    for number in range(20):
        assert [line.messages[1].content for line in lines(tmp_path, f"main.r1.t{number}")] == [f"task {number}"] * 3


async def test_an_answer_that_cannot_be_written_down_is_an_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        await record(tmp_path / "file" / "rec", [request("s")])


# --- rollouts that begin anew or go on -------------------------------------------------------------------------------
OPENING, NEXT, LATER = request("s1", "u"), request("s1", "u", "a", "v"), request("s2", "w", place="Q")


async def test_a_repeated_rollout_begins_its_file_anew(tmp_path):
    await record(tmp_path, [OPENING, NEXT, LATER])
    await record(tmp_path, [OPENING, NEXT], ["x", "y"])
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["x", "y"]
    await record(tmp_path, [request("s1, edited", "u")], ["z"])
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["z"]


async def test_a_rollout_tried_again_in_the_same_process_begins_its_file_anew(tmp_path):
    await record(tmp_path, [OPENING, NEXT, LATER, OPENING, NEXT])
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["answer 3", "answer 4"]


async def test_a_resumed_rollout_goes_on_in_its_file(tmp_path):
    await record(tmp_path, [OPENING, NEXT, LATER, request("s2", "w", "a", "half", place="Q")])
    await record(tmp_path, [LATER], ["resumed"])
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["answer 0", "answer 1", "resumed"]
    await record(tmp_path, [request("s3", "never asked", place="R")], ["more"])
    assert [line.exchange.place for line in lines(tmp_path)] == ["P", "P", "Q", "R"]


async def test_a_rollout_whose_first_role_is_another_goes_on_in_its_file(tmp_path):
    """The blueprint agent asks as `discrepancies` first and as `agent` from then on."""
    first = request("d", "issue", role="discrepancies")
    rest = [OPENING, NEXT, LATER]
    await record(tmp_path, [first, *rest, request("s2", "w", "a", "half", place="Q")])
    await record(tmp_path, [LATER], ["resumed"])
    said = ["answer 0", "answer 1", "answer 2", "resumed"]
    assert [line.exchange.reply.text for line in lines(tmp_path)] == said
    model = replay(tmp_path)
    assert [(await model.complete(each)).text for each in (first, *rest)] == said
    await record(tmp_path, [first, *rest, LATER, first], list("abcdef"))  # back to the checkpoint; begun anew
    assert [line.exchange.reply.text for line in lines(tmp_path)] == ["f"]


async def test_a_helper_may_be_asked_the_same_twice(tmp_path):
    form = request("f", "ls", role="formatter")
    await record(tmp_path, [OPENING, form, NEXT, form])
    assert len(lines(tmp_path)) == 4
    model = replay(tmp_path)
    said = [(await model.complete(each)).text for each in (OPENING, form, NEXT, form)]
    assert said == ["answer 0", "answer 1", "answer 2", "answer 3"]


async def test_replay_follows_a_rollout_that_begins_anew_or_goes_on(tmp_path):
    await record(tmp_path, [OPENING, NEXT, LATER])
    model = replay(tmp_path)
    said = [(await model.complete(each)).text for each in (OPENING, NEXT, OPENING, NEXT, LATER, LATER)]
    assert said == ["answer 0", "answer 1", "answer 0", "answer 1", "answer 2", "answer 2"]
    assert (await replay(tmp_path).complete(LATER)).text == "answer 2"


async def test_only_whole_answers_are_recorded(tmp_path):
    class Failing(Scripted):
        async def complete(self, asked):
            raise SandboxError("no")

    with pytest.raises(SandboxError):
        await Recorder(Failing([]), tmp_path).complete(OPENING)
    assert list(tmp_path.iterdir()) == []


async def test_lines_hold_one_json_object_each_in_ascii(tmp_path):
    await record(tmp_path, [request("s\u2028", "u\n\n\x85")], ["\u2029 \ud800 lone"])
    data = (tmp_path / "main.r1.a.jsonl").read_bytes()
    assert data.isascii()
    assert len(data.splitlines()) == 1
    assert json.loads(data)["n"] == 1
    assert (await replay(tmp_path).complete(request("s\u2028", "u\n\n\x85"))).text == "\u2029 ? lone"


async def test_sessions_forgotten_in_memory_go_on_from_their_files(tmp_path, monkeypatch):
    monkeypatch.setattr("uchide.llm.resuming.LIVE_SESSIONS", 2)
    turns = [request("s", "u"), request("s", "u", "a", "v"), request("s", "u", "a", "v", "b", "w")]
    asked = [replace(turn, session=f"main.r1.{name}") for turn in turns for name in "abcd"]
    await record(tmp_path, asked)
    model = replay(tmp_path)
    assert [(await model.complete(each)).text for each in asked] == [f"answer {n}" for n in range(12)]
    assert [len(lines(tmp_path, f"main.r1.{name}")) for name in "abcd"] == [3] * 4


def test_what_is_replayed_is_part_of_the_key_of_what_is_made_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    path, folder = tmp_path / "x.yaml", tmp_path / "rec"

    def key():
        model = f"{{name: replay, from: {folder}}}"
        path.write_text(f"name: x\ndataset: {{name: mini, limit: 1}}\nruns: 1\narms: {{main: {{model: {model}}}}}\n")
        jobs = plan_experiment(Root(ROOT, tmp_path / "artifacts"), path).plan.jobs
        return next(name for name, job in jobs.items() if job.kind.label == "bench-generate")

    with pytest.raises(ConfigError, match="no such folder"):
        key()
    asyncio.run(record(folder, [OPENING], ["one"]))
    before = key()
    assert key() == before
    asyncio.run(record(folder, [OPENING], ["two"]))
    assert key() != before
