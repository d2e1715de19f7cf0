"""`uchide show` on results of a whole experiment and of a part of it, with quick engines."""

import pytest
from frame import Checkout

from uchide.agents.trajectory import EndRecord, HeaderRecord, TrajectoryWriter, TurnRecord
from uchide.records import Usage


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A checkout in which only two instances were run, once each, and no experiment as a whole."""
    checkout = Checkout.make(tmp_path_factory.mktemp("show"))
    checkout.uchide("run", "x", "-i", "repo-1", "-i", "repo-3", "--runs", "1")
    return checkout


def lay_trajectory(checkout, name):
    """The quick agent writes none: put one where its row says it is."""
    header = HeaderRecord(
        candidate_id=name,
        arm="main",
        run="r01",
        seed=1,
        instance_id="repo-1",
        agent="quick",
        model="none",
        base_tree="",
    )
    turn = TurnRecord(n=1, phase="CODE_FIX", visit=1, reply="hello", tool="bash", action="ls -la", t=1.0)
    (rows,) = checkout.store.glob("bench-generate*/rows.jsonl")
    with TrajectoryWriter(rows.parent / f"trajectories/{name}.jsonl.zst") as writer:
        for record in (
            header,
            turn,
            EndRecord(exit_status="completed", turns=1, format_errors=0, usage=Usage(calls=1), t=2.0),
        ):
            writer.write(record)


def test_show_reaches_what_run_i_made(part):
    shown = part.uchide("show", "x")
    assert "latest run of a part (2 instances):\nx.subset: resolved of 2" in shown
    one = part.uchide("show", "x", "repo-1")
    assert "main.r01_s1001.repo-1  completed" in one
    assert "cross_agent" in one
    assert "repo-0: no candidate yet" in part.uchide("show", "x", "repo-0")
    assert "has no instance 'repo-9'" in part.uchide("show", "x", "repo-9", code=1)


def test_show_pages_the_trajectory_of_a_candidate(part):
    name = "main.r01_s1001.repo-1"
    lay_trajectory(part, name)
    for words in (
        ("x", "repo-1", "--run", "r01"),
        ("x", "repo-1", "--run", "main.r01_s1001"),
        ("x", name),
        (name,),
        ("x", "repo-1", "--phase", "CODE_FIX"),
        ("x", "repo-1", "--turn", "1", "--full"),
    ):
        shown = part.uchide("show", *words)
        assert "=== CODE_FIX\n\n[1]\nhello\n$ ls -la" in shown, words
    assert "there are: main.r01_s1001.repo-1" in part.uchide("show", "x", "repo-1", "--run", "r07", code=1)
    assert "need an instance" in part.uchide("show", "x", "--full", code=1)


def test_a_candidate_of_any_arm_is_found_and_its_experiment_told(tmp_path):
    """Kind: verdict rows beside candidates, and an id that several experiments hold."""
    checkout = Checkout.make(tmp_path)
    text = (checkout.path / "experiments/x.yaml").read_text()
    arms = "arms: {main: {}, other: {agent: {name: quick, flag: 1}}}\n"
    for name in ("x", "z"):
        checkout.write(f"experiments/{name}.yaml", text.replace("name: x\n", f"name: {name}\n") + arms)
        checkout.uchide("run", name, "-i", "repo-1", "--runs", "1")
    shown = checkout.uchide("show", "other.r01_s1001.repo-1", code=1)
    assert "Field required" not in shown
    assert "this is of the experiment x; z also has other.r01_s1001.repo-1" in shown
    assert "no experiment" in checkout.uchide("show", "nobody.r01_s1001.repo-1", code=1)
