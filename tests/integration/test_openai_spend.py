"""A spend cap ends an experiment's jobs with one message, keeps what is done, and a higher one goes on from there."""

import json
import re

import pytest
from frame import Checkout


def test_a_reached_cap_stops_with_one_message_and_a_higher_one_goes_on(tmp_path):
    checkout = Checkout.make(tmp_path / "c")
    checkout.edit("experiments/x.yaml", "policy: {", "policy: {spend: {tokens: 350}, ")
    said = checkout.uchide("run", "x", code=1, QUICK_TOKENS="100")
    assert said.count("policy.spend.tokens is reached") == 1, said
    assert said.count("failed: ") == 1, said
    spent, allowed, done, total = re.search(
        r"reached: ([\d,]+) tokens spent, (\d+) allowed; (\d+) of (\d+) rollouts are done", said
    ).groups()
    assert (allowed, total) == ("350", "10")
    assert 4 <= int(done) <= 6  # the fourth reaches it; another job looks every half second
    assert int(spent) == 100 * int(done)
    assert "raise policy.spend.tokens and run the same command again" in said
    before = {path: path.read_bytes() for path in checkout.store.glob("bench-generate*/rows.jsonl")}

    checkout.edit("experiments/x.yaml", "tokens: 350", "tokens: 5_000")
    said = checkout.uchide("run", "x", QUICK_TOKENS="100")
    for path, rows in before.items():
        assert path.read_bytes().startswith(rows), "finished rows are kept as they are"
    ledgers = list((checkout.path / "artifacts/x/spend").glob("*.jsonl"))
    lines = sum(path.read_bytes().count(b"\n") for path in ledgers)
    assert lines == 10, "each rollout was paid for once"
    assert checkout.counts() == {}

    checkout.edit("experiments/x.yaml", "tokens: 5_000", "usd: 1.5")
    assert checkout.counts() == {}, "a cap changes no key"


def test_a_server_that_moved_makes_nothing_run_again(tmp_path):
    checkout = Checkout.make(tmp_path / "c", instances=1)
    checkout.edit("experiments/x.yaml", "model: none", "model: {name: none, base_url: 'http://node1:8000/v1'}")
    checkout.edit("experiments/x.yaml", "runs: 2", "runs: 1")
    checkout.uchide("run", "x", "--until", "bench")
    (spec,) = (checkout.path / "artifacts/x/runs").glob("*/jobs/bench-generate*.json")
    assert json.loads(spec.read_bytes())["config"]["model"]["base_url"] == "http://node1:8000/v1", "jobs are told"
    checkout.edit("experiments/x.yaml", "node1:8000", "node7:43211")
    assert checkout.counts("--until", "bench") == {}
    checkout.edit("experiments/x.yaml", "name: none,", "name: none, model: other,")
    assert checkout.counts("--until", "bench")["bench-generate"] == 1


@pytest.mark.parametrize("cap", ["dollars: 3", "usd: 0", "tokens: 1.5"])
def test_a_wrong_cap_is_told_with_file_and_line(tmp_path, cap):
    checkout = Checkout.make(tmp_path / "c")
    checkout.edit("experiments/x.yaml", "policy: {", f"policy: {{spend: {{{cap}}}, ")
    said = checkout.uchide("run", "x", "--dry-run", code=1)
    assert "x.yaml:7: " in said
    assert "policy.spend." in said
