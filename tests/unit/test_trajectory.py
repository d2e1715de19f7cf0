"""Trajectory files: append-only, readable after a kill, free of secrets; and conversations that only grow."""

import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rollouts import FIX, HAPPY, play
from support.scripted import turn

from uchide.agents.interop.invariants import violations
from uchide.agents.trajectory import EndRecord, HeaderRecord, TrajectoryWriter, TurnRecord, conversation, read
from uchide.errors import SandboxError, StoreError
from uchide.records import Usage
from uchide.redact import redactor, secret_values

HEADER = HeaderRecord(
    candidate_id="main.r01_s1001.x", arm="main", run="r01_s1001", seed=1001, instance_id="x", agent="phases",
    model="scripted", base_tree="0" * 40,
)  # fmt: skip


def record(n: int, text: str = "text") -> TurnRecord:
    return TurnRecord(n=n, phase="CODE_FIX", visit=1, reply=text, observation=text, t=1.5)


def write(path: Path, count: int) -> list:
    records = [HEADER, *(record(n, f"reply {n} \u2028 {os.urandom(200).hex()}") for n in range(1, count))]
    with TrajectoryWriter(path) as writer:
        for item in records:
            writer.write(item)
    return records


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "a/t.jsonl.zst"
    written = write(path, 20)
    assert list(read(path)) == written


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_gives_its_whole_records_and_a_notice(tmp_path, part):
    path, notices = tmp_path / "t.jsonl.zst", []
    written = write(path, 50)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    found = list(read(path, notices.append))
    assert found == written[: len(found)]
    assert len(found) >= int(50 * part) - 2
    assert part == 0.999 or len(found) < 50


def test_a_killed_writer_loses_at_most_the_record_in_hand(tmp_path):
    path = tmp_path / "t.jsonl.zst"
    code = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[2]); import test_trajectory as t\n"
        "w = t.TrajectoryWriter(Path(sys.argv[1])); w.write(t.HEADER)\n"
        "for n in range(1, 31): w.write(t.record(n))\n"
        "print('written', flush=True); time.sleep(60)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    child = subprocess.Popen([sys.executable, "-c", code, path, Path(__file__).parent], stdout=subprocess.PIPE, env=env)
    assert child.stdout.readline() == b"written\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert [getattr(item, "n", 0) for item in read(path)] == list(range(31))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"plain text, no zstd", "is not a trajectory"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is not a trajectory"),
    ],
)
def test_another_file_is_refused(tmp_path, data, message):
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=message):
        list(read(path))


def test_a_malformed_record_is_named(tmp_path):
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(zstandard.compress(HEADER.model_dump_json().encode() + b'\n{"kind": "turn", "n": "one"}\n'))
    with pytest.raises(StoreError, match=r"record 2: turn\.n: "):
        list(read(path))
    with TrajectoryWriter(path) as writer:
        writer.write(record(1))
    with pytest.raises(StoreError, match="does not begin with a header"):
        list(read(path))


def test_a_full_disk_is_one_clear_error():
    with pytest.raises(StoreError, match="cannot write the trajectory /dev/full: No space left"):
        TrajectoryWriter(Path("/dev/full")).write(HEADER)


def test_writing_costs_the_same_at_the_end_as_at_the_beginning(tmp_path):
    def cost(writer: TrajectoryWriter, count: int) -> float:
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            for n in range(count):
                writer.write(record(n, "x" * 8000))
            best = min(best, time.process_time() - start)
        return best

    with TrajectoryWriter(tmp_path / "t.jsonl.zst") as writer:
        first = cost(writer, 40)
        cost(writer, 400)
        assert cost(writer, 40) < 3 * first


SECRETS = {"OPENAI_API_KEY": "sk-abc123secret", "hub_token": "t0ken.(x)*", "DB_PASSWORD": 'quo"te\\d', "PEM_KEY":
           "-----BEGIN-----\n0123456789abcdef0123456789\n-----END-----\n", "X_AUTH": "Bearer zzzzzz"}  # fmt: skip
PLAIN = {"GIT_AUTHOR_NAME": "Somebody", "USE_TOKEN": "1", "HOME": "/home/me", "LANG": "C.UTF-8"}


def test_secret_values_by_name():
    values = secret_values(SECRETS | PLAIN)
    assert set(SECRETS.values()) <= values
    assert not {"Somebody", "1", "/home/me"} & values


def test_no_secret_reaches_the_file(tmp_path):
    path = tmp_path / "t.jsonl.zst"
    text = "a " + " b ".join(SECRETS.values()) + " and the line 0123456789abcdef0123456789 alone"
    with TrajectoryWriter(path, redactor(secret_values(SECRETS))) as writer:
        writer.write(HEADER)
        writer.write(record(1, text))
        writer.write(
            EndRecord(exit_status="infra", error=text, turns=1, format_errors=0, usage=Usage(), warnings=(text,), t=0.0)
        )
    found = list(read(path))
    shown = "".join(item.model_dump_json() for item in found)
    for value in SECRETS.values():
        assert all(line.strip() not in shown for line in value.splitlines() if len(line) > 16)
    assert found[1].reply == "a " + " b ".join(["[redacted]"] * 5) + " and the line [redacted] alone"


async def test_the_environment_of_the_process_is_filtered_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "planted-secret-value")
    _, _, records = await play(tmp_path, [turn("W0", "echo planted-secret-value")], {"limits": {"steps": 1}})
    assert "planted-secret-value" not in "".join(item.model_dump_json() for item in records)
    assert "[redacted]" in next(item for item in records if item.kind == "turn").observation


async def test_the_requests_can_be_rebuilt_from_the_records(tmp_path):
    _, model, records = await play(tmp_path, (turn("W0", "ls"), "nonsense", *HAPPY))
    rebuilt = [messages for _, messages in conversation(records)]
    assert rebuilt == model.requests


REPLIES = [
    turn("W0", "true"),
    turn("W1", "echo x > /share/reproduce.md; echo y > /share/root_cause.md"),
    turn("W1", FIX),
    turn("COMPLETE", memo="memo"),
    turn("COMPLETE"),
    turn("GIVEUP", memo="memo"),
    turn("GIVEUP"),
    turn("HANDOVER", memo="memo"),
    turn("HANDOVER"),
    "nonsense",
    "",
]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(REPLIES), min_size=1, max_size=10))
async def test_between_rebuilds_a_conversation_only_grows_at_its_end(tmp_path_factory, replies):
    folder = tmp_path_factory.mktemp("grow")
    candidate, model, records = await play(folder, [*replies, *["nonsense"] * 60], {"limits": {"steps": 10}})
    before: list = []
    for item, request in zip(rebuilds(records), model.requests, strict=True):
        if not item:
            assert request[: len(before)] == before
            assert [message.role for message in request[len(before) :]] == ["assistant", "user"]
        before = request
    assert candidate.turns == len(model.requests)
    turns = [item for item in records if item.kind == "turn"]
    assert [item.n for item in turns] == list(range(1, candidate.turns + 1))
    assert all(item.action is None or item.format_error is None for item in turns)
    assert records[-1].kind == "end"


def rebuilds(records) -> list[bool]:
    """For each turn, whether a context record stands between it and the turn before."""
    found, fresh = [], False
    for item in records:
        if item.kind == "context":
            fresh = True
        elif item.kind == "turn":
            found.append(fresh)
            fresh = False
    return found


class NoRoom:
    """A sandbox provider whose sandboxes never start."""

    @asynccontextmanager
    async def open(self, spec):
        raise SandboxError("there is no room")
        yield spec


async def test_a_rollout_whose_sandbox_never_started_has_header_and_end(tmp_path):
    """Kind: an infra row whose rollout did not begin."""
    with pytest.raises(SandboxError, match="no room"):
        await play(tmp_path, (), provider=NoRoom())
    records = list(read(next(tmp_path.glob("trajectories/*"))))
    assert [record.kind for record in records] == ["header", "end"]
    header, end = records
    assert (header.candidate_id, header.base_tree) == ("main.r01_s1001.toy__calc-1", "")
    assert (end.exit_status, end.error, end.turns) == ("infra", "there is no room", 0)
    assert list(violations(records)) == []
