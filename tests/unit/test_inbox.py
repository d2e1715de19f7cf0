"""Somebody else plays the model through files: answers are whole, belong to their question, and are used again."""

import asyncio
import json
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.local import LocalProvider
from support.rollouts import HAPPY, make_task
from typer.testing import CliRunner

from uchide import agents, llm
from uchide.agents import trajectory
from uchide.cli.main import app
from uchide.errors import ConfigError, ModelError, StoreError
from uchide.llm.inbox.mailbox import set_aside
from uchide.llm.inbox.waiting import waiting
from uchide.protocols import ChatReply, ChatRequest, Message, Sampling, ToolCall, ToolSpec
from uchide.records import Usage

FAST = {"timeout_s": 10.0, "poll_s": 0.01, "settle_s": 0.03}


def inbox(folder, **options):
    return llm.create({"name": "inbox", "dir": str(folder), **FAST, **options})


def request(*texts, session="main.r1.a", **more):
    roles = ("system", *("user", "assistant") * len(texts))
    messages = [Message(role, text) for role, text in zip(roles, texts, strict=False)]
    return ChatRequest(messages, Sampling(7), session=session, group="a", **{"place": "CODE_FIX", **more})


async def until(path):
    for _ in range(1000):
        if path.exists():
            return path
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} never came")


@asynccontextmanager
async def asking(model, asked):
    task = asyncio.create_task(model.complete(asked))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked_and_answered(model, folder, asked, number, text):
    async with asking(model, asked) as task:
        await until(folder / f"main.r1.a/{number:04d}.request.md")
        (folder / f"main.r1.a/{number:04d}.answer.md").write_text(text)
        return await task


# --- questions -------------------------------------------------------------------------------------------------------
async def test_a_question_is_readable_for_people_and_whole_for_programs(tmp_path):
    tool = ToolSpec("bash", "run a command", {"type": "object"})
    head = 'UCHIDE-HEADER {"phase": "CODE_FIX", "action_format": "native"}\nYou repair software.'
    async with asking(inbox(tmp_path), request(head, "Fix it.", tools=(tool,))):
        text = (await until(tmp_path / "main.r1.a/0001.request.md")).read_text()
        data = json.loads((tmp_path / "main.r1.a/0001.request.json").read_text())
    assert "question 1" in text
    assert "`0001.answer.md`" in text
    assert "---------- user ----------\n\nFix it.\n" in text
    assert "- bash: run a command" in text
    assert data["messages"] == [{"role": "system", "content": head}, {"role": "user", "content": "Fix it."}]
    assert data["action_format"] == "native"
    assert data["header"]["phase"] == data["place"] == "CODE_FIX"
    assert data["sampling"]["seed"] == 7
    assert data["tools"] == [{"name": "bash", "description": "run a command", "parameters": {"type": "object"}}]
    assert "uchide inbox" in (tmp_path / "README.md").read_text()


async def test_a_wait_is_told_once_and_an_answer_that_is_there_is_not_waited_for(tmp_path, caplog):
    told = f"inbox: waits for {tmp_path / 'main.r1.a/0001.answer.md'}"
    await asked_and_answered(inbox(tmp_path), tmp_path, request("sys", "task"), 1, "first")
    assert [each.getMessage() for each in caplog.records if each.name.startswith("uchide")] == [told]
    path = tmp_path / "main.r1.a/0001.answer.md"
    os.utime(path, (1, 1))
    await inbox(tmp_path).complete(request("sys", "task"))
    assert caplog.text.count(told) == 1


async def test_later_questions_show_only_what_is_new(tmp_path):
    model = inbox(tmp_path)
    await asked_and_answered(model, tmp_path, request("sys", "task"), 1, "first")
    async with asking(model, request("sys", "task", "first", "the observation")):
        text = (await until(tmp_path / "main.r1.a/0002.request.md")).read_text()
        data = json.loads((tmp_path / "main.r1.a/0002.request.json").read_text())
    assert "the observation" in text
    assert "task" not in text
    assert "1 of 4 messages are new" in text
    assert len(data["messages"]) == 4


async def test_secrets_are_not_written_into_questions(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2-hunter2")
    async with asking(inbox(tmp_path), request("sys", "the key is hunter2-hunter2")):
        await until(tmp_path / "main.r1.a/0001.request.md")
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file())


# --- answers ---------------------------------------------------------------------------------------------------------
async def test_an_answer_in_json_may_hold_tool_calls_and_counts(tmp_path):
    answer = {
        "text": "WORKFLOW: W0",
        "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}, {"id": "x", "name": "bash", "arguments": "{"}],
        "usage": {"calls": 1, "prompt_tokens": 11, "completion_tokens": 3},
        "model": "a-friend",
    }
    async with asking(inbox(tmp_path), request("sys", "task")) as task:
        await until(tmp_path / "main.r1.a/0001.request.md")
        (tmp_path / "main.r1.a/0001.answer.json").write_text(json.dumps(answer))
        reply = await task
    calls = (ToolCall("call_1_0", "bash", '{"command": "ls"}'), ToolCall("x", "bash", "{"))
    usage = Usage(calls=1, prompt_tokens=11, completion_tokens=3)
    assert reply == ChatReply("WORKFLOW: W0", usage, "tool_calls", "a-friend", calls)


@pytest.mark.parametrize("name", ["0001.answer.md", "0001.answer.json"])
async def test_a_half_written_answer_is_never_read(tmp_path, name):
    text = "x" * 3000 if name.endswith("md") else json.dumps({"text": "x" * 3000})
    async with asking(inbox(tmp_path, settle_s=0.2), request("sys", "task")) as task:
        await until(tmp_path / "main.r1.a/0001.request.md")
        with (tmp_path / "main.r1.a" / name).open("w") as file:
            await asyncio.sleep(0.05)  # empty so far
            for start in range(0, len(text), 300):
                file.write(text[start : start + 300])
                file.flush()
                assert not task.done()
                await asyncio.sleep(0.03)
        assert (await task).text == "x" * 3000


async def test_an_editor_that_replaces_the_file_is_followed(tmp_path):
    async with asking(inbox(tmp_path, settle_s=0.1), request("sys", "task")) as task:
        path = (await until(tmp_path / "main.r1.a/0001.request.md")).with_name("0001.answer.md")
        path.write_text("draft")
        await asyncio.sleep(0.03)
        path.with_name(".swap").write_text("final answer\r\n", newline="")
        path.with_name(".swap").replace(path)
        assert (await task).text == "final answer\r\n"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("0001.answer.json", b'{"text": "a"', "JSON"),
        ("0001.answer.json", b'{"text": "a", "colour": 1}', "answer.colour"),
        ("0001.answer.json", b'{"text": "a", "request": "0123"}', "it answers the request 0123"),
        ("0001.answer.md", b"\xff\xfe", "not UTF-8"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_set_aside_and_the_question_stays(tmp_path, name, data, why):
    async with asking(inbox(tmp_path), request("sys", "task")) as task:
        path = (await until(tmp_path / "main.r1.a/0001.request.md")).with_name(name)
        path.write_bytes(data)
        reason = await until(tmp_path / f"main.r1.a/set-aside/{Path(name).stem}.1.why.txt")
        await asyncio.sleep(0.02)
        assert why in reason.read_text()
        assert (tmp_path / f"main.r1.a/set-aside/{Path(name).stem}.1{Path(name).suffix}").read_bytes() == data
        assert not task.done()
        path.with_name("0001.answer.md").write_text("better")
        assert (await task).text == "better"


def in_the_way(folder):
    (folder / "set-aside").write_text("a file")
    (folder / "0001.answer.md").write_bytes(b"\xff\xfe")


def a_folder(folder):
    (folder / "0001.answer.md").mkdir()


def a_loop(folder):
    (folder / "0001.answer.json").symlink_to("0001.answer.json")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(in_the_way, "set-aside"), (a_folder, "Is a directory"), (a_loop, "symbolic links")],
)
async def test_what_cannot_be_read_or_set_aside_fails_its_rollout_and_no_other(tmp_path, spoil, why):
    model = inbox(tmp_path)
    async with (
        asking(model, request("sys", "task")) as bad,
        asking(model, request("sys", "task", session="main.r1.b")) as good,
    ):
        await until(tmp_path / "main.r1.b/0001.request.md")
        spoil((await until(tmp_path / "main.r1.a/0001.request.md")).parent)
        with pytest.raises(ModelError, match=why):
            await asyncio.wait_for(bad, 5)
        (tmp_path / "main.r1.b/0001.answer.md").write_text("fine")
        assert (await asyncio.wait_for(good, 5)).text == "fine"


async def test_a_poller_that_breaks_fails_everyone_and_the_next_question_has_a_new_one(tmp_path, monkeypatch):
    model = inbox(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr("uchide.llm.inbox.model.answer_of", lambda *args: 1 // 0)
        asked = [model.complete(request("sys", "task", session=f"main.r1.{name}")) for name in "bc"]
        found = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 5)
    assert [type(each) for each in found] == [ZeroDivisionError] * 2
    assert (await asked_and_answered(model, tmp_path, request("sys", "task"), 1, "fine")).text == "fine"


def test_a_file_that_is_taken_away_at_that_moment_is_gone(tmp_path, monkeypatch):
    path = tmp_path / "0001.answer.md"
    monkeypatch.setattr(Path, "exists", lambda self: self == path)  # seen a moment ago
    assert set_aside(path, "no use") == ""


@pytest.mark.parametrize("data", ["{}", "[]", "3", '{"request": "x", "place": "P"}'])
async def test_a_damaged_question_is_a_clear_error(tmp_path, data):
    path = tmp_path / "main.r1.a/0001.request.json"
    path.parent.mkdir()
    path.write_text(data)
    with pytest.raises(StoreError, match=r"not a question of an inbox: .*role"):
        await inbox(tmp_path).complete(request("sys", "task"))
    with pytest.raises(StoreError, match="not a question of an inbox"):
        waiting(tmp_path)


async def test_a_time_out_names_the_file_it_waited_for_and_a_late_answer_is_used_next_time(tmp_path):
    with pytest.raises(ModelError, match=r"no answer within 0.1 s; .*main.r1.a/0001.answer.md") as caught:
        await inbox(tmp_path, timeout_s=0.1).complete(request("sys", "task"))
    assert caught.value.retryable
    (tmp_path / "main.r1.a/0001.answer.md").write_text("late")
    assert (await inbox(tmp_path).complete(request("sys", "task"))).text == "late"


# --- again -----------------------------------------------------------------------------------------------------------
async def test_answers_are_used_at_once_for_the_same_questions(tmp_path):
    model = inbox(tmp_path)
    await asked_and_answered(model, tmp_path, request("sys", "ran in 0.10s"), 1, "one")
    await asked_and_answered(model, tmp_path, request("sys", "ran in 0.10s", "one", "ok"), 2, "two")
    for path in tmp_path.glob("*/*.answer.md"):
        os.utime(path, (time.time() - 60, time.time() - 60))
    again = inbox(tmp_path, poll_s=60.0)
    for model in (again, again):  # another process, then a second try in it
        assert (await model.complete(request("sys", "ran in 9.99s"))).text == "one"
        assert (await model.complete(request("sys", "ran in 9.99s", "one", "ok"))).text == "two"


async def test_an_answer_to_another_question_is_refused_and_kept(tmp_path):
    await asked_and_answered(inbox(tmp_path), tmp_path, request("sys", "task"), 1, "old")
    async with asking(inbox(tmp_path), request("sys", "another task")) as task:
        await until(tmp_path / "main.r1.a/set-aside/0001.request.1.json")
        await asyncio.sleep(0.1)
        assert not task.done()
        text = (tmp_path / "main.r1.a/0001.request.md").read_text()
        assert "An answer was here and is now set-aside/0001.answer.1.md: it answered another question." in text
        assert (tmp_path / "main.r1.a/set-aside/0001.answer.1.md").read_text() == "old"
        (tmp_path / "main.r1.a/0001.answer.md").write_text("new")
        assert (await task).text == "new"


async def test_an_answer_that_was_there_before_any_question_is_refused(tmp_path):
    (tmp_path / "main.r1.a").mkdir()
    (tmp_path / "main.r1.a/0001.answer.md").write_text("prophecy")
    async with asking(inbox(tmp_path), request("sys", "task")) as task:
        text = (await until(tmp_path / "main.r1.a/0001.request.md")).read_text()
        assert "it was there before any question" in text
        await asyncio.sleep(0.1)
        assert not task.done()


# --- whole rollouts --------------------------------------------------------------------------------------------------
async def player(folder, script):
    """Answers every question of every rollout, each from its own copy of the script."""
    while True:
        for path in folder.glob("*/*.request.json"):
            number = int(path.name[:4])
            answer = path.with_name(f"{number:04d}.answer.md")
            if not answer.exists():
                answer.with_suffix(".tmp").write_text(script[number - 1])
                answer.with_suffix(".tmp").replace(answer)
        await asyncio.sleep(0.01)


async def test_rollouts_of_the_agent_are_played_at_once_and_resumed(tmp_path):
    tasks = [make_task(tmp_path / f"t{number}", f"toy__calc-{number}") for number in range(3)]
    model = inbox(tmp_path / "box")

    async def rollout(task, player_of):
        return await agents.create({}).rollout(task, player_of, LocalProvider())

    playing = asyncio.create_task(player(tmp_path / "box", HAPPY))
    found = await asyncio.gather(*(rollout(task, model) for task in tasks))
    playing.cancel()
    assert [candidate.exit_status for candidate in found] == ["completed"] * 3
    assert len(list((tmp_path / "box/main.r01_s1001.toy__calc-1").glob("*.answer.md"))) == len(HAPPY)
    again = await rollout(tasks[1], inbox(tmp_path / "box"))  # nobody plays any more
    assert again.patch == found[1].patch
    turns = [record for record in trajectory.read(tasks[1].trajectory) if record.kind == "turn"]
    assert [record.reply for record in turns] == list(HAPPY)


async def test_one_poller_looks_for_all_answers_and_stops_when_none_is_waited_for(tmp_path):
    model = inbox(tmp_path)
    waiting = [asyncio.create_task(model.complete(request("sys", session=f"main.r1.{n}"))) for n in range(30)]
    for number in range(30):
        path = await until(tmp_path / f"main.r1.{number}/0001.request.md")
        path.with_name("0001.answer.md").write_text(str(number))
    assert [reply.text for reply in await asyncio.gather(*waiting)] == [str(number) for number in range(30)]
    await asyncio.sleep(0.05)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "model.dir"), ({"dir": "x", "timeout": 3}, "model.timeout"), ({"dir": "x", "poll_s": 0}, "model.poll_s")],
)
def test_options_are_checked(options, message):
    with pytest.raises(ConfigError, match=message):
        llm.create({"name": "inbox", **options})


# --- the command -----------------------------------------------------------------------------------------------------
def uchide(*args, stdin=None):
    done = CliRunner().invoke(app, ["inbox", *map(str, args)], input=stdin)
    return done.exit_code, f"{done.output}{done.exception or ''}"


async def test_the_command_lists_shows_and_answers(tmp_path):
    model = inbox(tmp_path)
    async with (
        asking(model, request("sys", "task a")) as one,
        asking(model, request("sys", "task b", session="b")) as two,
    ):
        await until(tmp_path / "main.r1.a/0001.request.md")
        await until(tmp_path / "b/0001.request.md")
        code, text = await asyncio.to_thread(uchide, "ls", tmp_path)
        assert code == 0
        assert "main.r1.a/0001  CODE_FIX  agent" in text
        code, text = await asyncio.to_thread(uchide, "show", tmp_path)
        assert code == 1
        assert "2 questions wait" in text
        code, text = await asyncio.to_thread(uchide, "show", tmp_path, "--which", "b/")
        assert "task b" in text
        code, text = await asyncio.to_thread(uchide, "answer", tmp_path, "-", "--which", "b/", stdin=b"hello")
        assert code == 0
        assert (await two).text == "hello"
        file = tmp_path / "mine.json"
        file.write_text('{"text": "a", "tool_calls": [{"nome": "bash"}]}')
        code, text = await asyncio.to_thread(uchide, "answer", tmp_path, file)
        assert code == 1
        assert "answer.tool_calls.0.name" in text
        file.write_text('{"text": "hi"}')
        assert (await asyncio.to_thread(uchide, "answer", tmp_path, file))[0] == 0
        assert (await one).text == "hi"
    assert (await asyncio.to_thread(uchide, "ls", tmp_path))[1] == "nothing waits for an answer\n"
