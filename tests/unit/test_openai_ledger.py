"""The ledger of what an experiment's models used, and the caps on it."""

import json
import subprocess
import sys

import pytest
from support.fault_server import ABORT, BROKEN, completion, good, serving
from support.fault_server import Step as Answer
from support.openai import ask, client

from uchide import llm
from uchide.errors import ConfigError, ModelError, SpendLimit, StoreError
from uchide.llm.spend import Busy, Ledger, SpendCaps, Spent
from uchide.records import Usage


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))


def spent(tokens=0, cost=None, start=0.0, end=0.0, gpus=0.0, server="a"):
    return Spent(server, start, end, Usage(calls=1, prompt_tokens=tokens, cost=cost), gpus)


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [
        ([(0, 10)], 10),
        ([(0, 10), (0, 10)], 10),
        ([(0, 10), (5, 15)], 15),
        ([(0, 10), (10, 20)], 20),
        ([(0, 10), (20, 30), (5, 25)], 30),
        ([(20, 30), (0, 10), (40, 50), (9, 41)], 50),
        ([(0, 100), (10, 20)], 100),
        ([(10, 20), (0, 100)], 100),
        ([(5, 5), (7, 6)], 0),
    ],
)
def test_a_server_that_works_on_two_requests_is_busy_once(intervals, seconds):
    busy = Busy()
    for start, end in intervals:
        busy.add(start, end, gpus=4)
    assert busy.gpu_seconds == 4 * seconds
    assert busy.starts == sorted(busy.starts)


@pytest.mark.parametrize(
    ("caps", "entry", "said"),
    [
        ({"usd": 1.0}, spent(cost=0.5), r"policy\.spend\.usd is reached: 1\.00 US dollars spent, 1 allowed"),
        ({"tokens": 200}, spent(100), r"policy\.spend\.tokens is reached: 200 tokens spent, 200 allowed"),
        ({"gpu_hours": 0.5}, None, r"policy\.spend\.gpu_hours is reached: 0\.50 GPU-hours spent, 0\.5 allowed"),
    ],
)
def test_a_cap_is_reached_by_what_all_jobs_spent(tmp_path, caps, entry, said):
    ledgers = [Ledger(tmp_path / "spend", job, SpendCaps(**caps)) for job in ("one", "two")]
    for number, ledger in enumerate(ledgers):
        ledger.check()
        ledger.add(entry or spent(start=450.0 * number, end=450.0 * (number + 1), gpus=2))
    later = Ledger(tmp_path / "spend", "one", SpendCaps(**caps))
    for ledger in (later, *ledgers):
        ledger._looked = -1e9  # as if half a second had passed
        with pytest.raises(SpendLimit, match=said) as caught:
            ledger.check()
        assert "finished rows are kept" in caught.value.hint
    Ledger(tmp_path / "spend", "one", SpendCaps(tokens=10**9, usd=10.0, gpu_hours=9.0)).check()


def test_what_a_killed_job_left_half_written_costs_nothing_else(tmp_path):
    caps = SpendCaps(tokens=250)
    first = Ledger(tmp_path, "job", caps)
    first.add(spent(100))
    first.close()
    file = tmp_path / "job.jsonl"
    file.write_bytes(file.read_bytes() + b'{"server":"a","sta')
    again = Ledger(tmp_path, "job", caps)
    again.add(spent(100))
    again.check()
    again.add(spent(100))
    third = Ledger(tmp_path, "other", caps)
    for ledger in (again, third):
        assert ledger.total.tokens == 300
        with pytest.raises(SpendLimit):
            ledger.check()


GOOD = {"server": "a", "start": 0.0, "end": 1.0, "gpus": 0.0, "prompt": 100, "completion": 0, "usd": None}


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b'{"server": "a"}',
        json.dumps(GOOD | {"prompt": None}).encode(),
        json.dumps(GOOD | {"prompt": -100}).encode(),
        json.dumps(GOOD | {"prompt": 10**400}).encode(),
        json.dumps(GOOD | {"start": "noon"}).encode(),
        json.dumps(GOOD | {"end": float("nan")}).encode(),
        json.dumps(GOOD | {"usd": [1]}).encode(),
        json.dumps(GOOD | {"usd": 10**400}).encode(),
        json.dumps(GOOD | {"server": None}).encode(),
    ],
    ids=lambda line: repr(line[:30]),
)
def test_a_line_of_another_shape_is_told_and_not_counted(tmp_path, line, caplog):
    whole = json.dumps(GOOD).encode()
    (tmp_path / "other.jsonl").write_bytes(b"\n".join([whole, line, whole, b""]))
    ledger = Ledger(tmp_path, "job", SpendCaps(tokens=201))
    ledger.check()
    assert ledger.total.tokens == 200
    assert ["not of a ledger" in record.message for record in caplog.records] == [True]


def test_a_ledger_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "other.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"other\.jsonl cannot be read"):
        Ledger(tmp_path, "job", SpendCaps(tokens=1))


def test_a_line_that_finds_half_its_room_is_told_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a full disk: it too takes the first half of a line."""
    code = (
        "import resource, sys; from pathlib import Path; from uchide.errors import StoreError\n"
        "from uchide.llm.spend import Ledger, SpendCaps, Spent; from uchide.records import Usage\n"
        "ledger = Ledger(Path(sys.argv[1]), 'job', SpendCaps()); spent = Spent('a', 0, 0, Usage(prompt_tokens=100))\n"
        "ledger.add(spent); size = (Path(sys.argv[1]) / 'job.jsonl').stat().st_size\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + size // 2, hard))\n"
        "try: ledger.add(spent)\n"
        "except StoreError as error: print(error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))\n"
        "ledger.add(spent)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "job.jsonl cannot be written: File too large" in done.stdout
    lines = (tmp_path / "job.jsonl").read_text().splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == [100, 100]


def test_without_requests_there_is_no_folder(tmp_path):
    ledger = Ledger(tmp_path / "spend", "job", SpendCaps())
    ledger.check()
    ledger.close()
    assert not (tmp_path / "spend").exists()


async def test_every_request_is_in_the_ledger_also_those_that_came_to_nothing(tmp_path):
    ledger = Ledger(tmp_path, "job", SpendCaps(usd=1.0))
    with serving(ABORT, BROKEN, good(prompt=1000, output=0), *[ABORT] * 9) as server:
        async with client(server, meter=ledger, price={"input": 10.0, "output": 0.0}, retry={"attempts": 3}) as model:
            await ask(model)
            assert ledger.total.usd == pytest.approx((100 + 1000) * 10 / 1e6)
            with pytest.raises(ModelError, match="abort"):
                await ask(model)
    assert ledger.total.usd == pytest.approx((4 * 100 + 1000) * 10 / 1e6), "thrown away, and paid for"
    assert (tmp_path / "job.jsonl").read_bytes().count(b"\n") == 6


async def test_nothing_is_sent_once_a_cap_is_reached(tmp_path):
    ledger = Ledger(tmp_path, "job", SpendCaps(tokens=200))
    with serving() as server:
        async with client(server, meter=ledger) as model:
            await ask(model)
            await ask(model)
            with pytest.raises(SpendLimit, match="220 tokens spent, 200 allowed"):
                await ask(model)
    assert len(server.asked) == 2


async def test_a_server_that_counts_nothing_cannot_be_capped(tmp_path):
    body = {key: value for key, value in completion().items() if key != "usage"}
    for caps, fails in ((SpendCaps(tokens=200), True), (SpendCaps(gpu_hours=1.0), False)):
        with serving(Answer(body=body)) as server:
            async with client(server, meter=Ledger(tmp_path, "job", caps), gpus=1.0) as model:
                if not fails:
                    assert (await ask(model)).usage.cost is None
                    continue
                with pytest.raises(ModelError, match="counts no tokens") as caught:
                    await ask(model)
                assert not caught.value.retryable


@pytest.mark.parametrize(
    ("config", "caps", "said"),
    [
        ({}, {"usd": 1.0}, "policy.spend.usd cannot be kept: model has no price"),
        ({}, {"gpu_hours": 1.0}, "policy.spend.gpu_hours cannot be kept: model does not say how many GPUs"),
        ({"price": {"input": 0, "output": 0}, "for": {"CODE_FIX": {"price": None}}}, {"usd": 1.0},
         "model.for.CODE_FIX has no price"),
        ({}, {"tokens": 5}, None),
        ({"price": {"input": 0, "output": 0}, "gpus": 0}, {"usd": 1.0, "gpu_hours": 1.0}, None),
        ({"name": "mutator"}, {"usd": 1.0, "gpu_hours": 1.0}, None),
    ],
)  # fmt: skip
def test_a_cap_that_cannot_be_kept_is_refused_at_the_start(config, caps, said):
    whole = {"name": "openai", "base_url": "http://a/v1", "model": "m", **config}
    if said is None:
        llm.refuse_uncountable(whole, SpendCaps(**caps))
    else:
        with pytest.raises(ConfigError, match=said):
            llm.refuse_uncountable(whole, SpendCaps(**caps))
