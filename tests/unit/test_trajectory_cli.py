"""`uchide trajectory` and the pager of `uchide show`, as a user meets them."""

import asyncio
import json
import os
import pty
import subprocess
import sys

import pytest
from support import foreign
from support.rollouts import HAPPY, play
from typer.testing import CliRunner

from uchide.agents.interop import load
from uchide.agents.trajectory import EndRecord, TrajectoryWriter, json_schema, read
from uchide.cli.main import app
from uchide.cli.paging import Part, lines
from uchide.errors import StoreError
from uchide.paths import Root
from uchide.pipeline.schema import trajectory_path

PROGRAM = (sys.executable, "-m", "uchide.cli.main", "trajectory")


@pytest.fixture(scope="module")
def rollout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    candidate, _, records = asyncio.run(play(folder, HAPPY))
    return next(folder.glob("trajectories/*")), candidate, records


def trajectory(*args, code=0):
    result = CliRunner().invoke(app, ["trajectory", *map(str, args)])
    assert result.exit_code == code, result.output
    return result.output


def write(path, records):
    with TrajectoryWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path


def test_validate_tells_each_violation_with_its_record_and_fails(rollout, tmp_path):
    path, _, records = rollout
    assert trajectory("validate", path) == "1 trajectory: valid\n"
    end = records[-1].model_copy(update={"turns": 3, "format_errors": 2})
    bad = write(tmp_path / "bad.jsonl.zst", [*records[:-1], end])
    cut = write(tmp_path / "cut.jsonl.zst", records[:-1])
    rubbish = tmp_path / "rubbish.zst"
    rubbish.write_bytes(b"rubbish")
    out = trajectory("validate", path, bad, cut, rubbish, code=1).splitlines()
    assert out == [
        f"{bad}: record {len(records)}: the end counts 3 turns, and there are 17",
        f"{bad}: record {len(records)}: the end counts 2 format errors, and there are 0",
        f"{cut}: unfinished: no end record after {len(records) - 1} records",
        *[line for line in out if line.startswith(f"{rubbish}: ")],
        "4 trajectories: 2 broken, 1 unfinished",
    ]
    assert len(out) == 5


def test_a_half_written_tail_is_told_and_is_no_violation(rollout, tmp_path):
    """Kind: a half-written tail."""
    whole = rollout[0].read_bytes()
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(whole[: len(whole) // 2])
    out = trajectory("validate", cut)
    assert "records are whole" in out
    assert out.endswith("1 trajectory: valid, 1 unfinished\n")


def test_export_show_and_compare(rollout, tmp_path):
    path, candidate, _ = rollout
    for form in ("mini", "atif"):
        out = tmp_path / f"{form}.json"
        assert f"17 turns of {candidate.candidate_id}" in trajectory("export", path, "--to", form, "-o", out)
        assert len(load(out).steps) == 17
        assert "steps               17" in trajectory("compare", path, out)
    whole = trajectory("show", path)
    assert "=== CODE_FIX" in whole
    assert "$ cat /share/issue.json" in whole
    fix = trajectory("show", path, "--phase", "CODE_FIX")
    assert "sed -i" in fix
    assert "=== VERIFY_PATCH" not in fix
    one = trajectory("show", path, "--turn", "2")
    assert "[2] W8" in one
    assert "[1]" not in one


def test_show_cuts_long_texts_unless_all_is_asked_for(tmp_path):
    data = foreign.mini_v1()
    data["messages"][3]["content"] = "x" * 50_000
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data))
    assert len(trajectory("show", path)) < 10_000
    assert "48,000 characters left out" in trajectory("show", path)
    assert "x" * 50_000 in trajectory("show", path, "--full")


def test_a_file_of_another_kind_is_one_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("hello")
    with pytest.raises(StoreError, match="is not JSON"):
        CliRunner().invoke(app, ["trajectory", "show", str(path)], catch_exceptions=False)


EVIL = "\x1b]0;owned\x07\x1b[2J \u202e"


def on_terminal(path, **env):
    """What a terminal of 24 lines gets."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "PAGER": "cat", **env}
    child = subprocess.Popen([*PROGRAM, "show", str(path)], stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    out = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    os.close(master)
    assert child.wait(30) == 0
    return out.decode()


def test_colours_on_a_terminal_only_and_never_those_of_a_model(rollout, tmp_path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    data = foreign.mini_v1()
    data["messages"][3]["content"] = EVIL
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(data))
    shown = on_terminal(path)
    assert "\x1b[1m" in shown
    for bad in ("\x1b]0;", "\x1b[2J", "\u202e"):
        assert bad not in shown
    assert "\x1b" not in trajectory("show", path)
    plain = on_terminal(rollout[0], NO_COLOR="1")  # longer than the screen: through the pager
    assert "=== FINAL_REPORT" in plain
    assert "\x1b" not in plain


def test_a_notice_of_a_damaged_file_is_shown(rollout, tmp_path):
    cut = write(tmp_path / "cut.jsonl.zst", rollout[2][:9])
    assert any("no end record" in text for _, text in lines(load(cut), Part()))


def test_schema_file_is_what_the_models_say_and_accepts_what_is_written(rollout):
    import jsonschema

    from uchide.paths import find_root

    root: Root = find_root()
    schema = json.loads(trajectory_path(root.path).read_text())
    assert schema == json_schema(), "run: make schemas"
    validator = jsonschema.Draft202012Validator(schema)
    for record in read(rollout[0]):
        validator.validate(json.loads(record.model_dump_json()))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"kind": "end", "exit_status": "won"})
    assert isinstance(list(read(rollout[0]))[-1], EndRecord)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (("--phase", "TYPO"), "it has ISSUE_REPRODUCE"),
        (("--turn", "99"), "turns count over the whole rollout, and it has 17"),
        (("--phase", "CODE_FIX", "--turn", "1"), "CODE_FIX has turns from"),
    ],
)
def test_a_part_that_is_not_there_is_an_error_that_names_what_is(rollout, part, says):
    done = subprocess.run((*PROGRAM, "show", str(rollout[0]), *part), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_full_shows_the_opening_messages_of_every_phase(rollout):
    path, _, records = rollout
    whole = "\n".join(text for _, text in lines(load(path), Part(full=True)))
    contexts = [record for record in records if record.kind == "context"]
    assert len({record.phase for record in contexts}) > 2
    for record in contexts:
        for message in record.messages:
            assert message.content in whole
    brief = "\n".join(text for _, text in lines(load(path), Part()))
    assert brief.count("UCHIDE-HEADER") == 0


def test_phase_and_turn_together_filter_by_both(rollout):
    steps = load(rollout[0]).steps
    n = next(n for n, step in enumerate(steps, start=1) if step.phase == "CODE_FIX")
    shown = trajectory("show", rollout[0], "--phase", "CODE_FIX", "--turn", n)
    assert f"[{n}]" in shown
    assert f"[{n + 1}]" not in shown


def test_a_candidate_is_named_by_its_id(rollout, tmp_path):
    """Kind: a command that takes an id where its neighbour takes one."""
    path, candidate, _ = rollout
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "uchide"\n')
    files = [tmp_path / f"artifacts/store/bench-generate.{arm}-0/trajectories" for arm in ("a", "b")]
    for folder in files:
        folder.mkdir(parents=True)
    name, place = candidate.candidate_id, ("--root", tmp_path)
    first, second = (folder / path.name for folder in files)
    first.write_bytes(path.read_bytes())
    assert "=== CODE_FIX" in trajectory("show", name, *place)
    assert trajectory("validate", name, *place) == "1 trajectory: valid\n"
    assert "17 turns" in trajectory("export", name, "--to", "atif", "-o", tmp_path / "o.json", *place)
    second.write_bytes(path.read_bytes())
    for words in (
        ("show", name),
        ("export", name, "--to", "atif", "-o", tmp_path / "p.json"),
        ("compare", name, first),
    ):
        done = subprocess.run((*PROGRAM, *map(str, (*words, *place))), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert f"{name} holds 2 trajectories" in done.stderr
        assert str(first) in done.stderr
        assert str(second) in done.stderr
    head = trajectory("compare", first, second).splitlines()[0].split()
    assert head == [f"bench-generate.{arm}-0/trajectories/{path.name}" for arm in "ab"]
    done = subprocess.run(
        (*PROGRAM, "show", "nobody", "--root", str(tmp_path)), capture_output=True, text=True, check=False
    )
    assert "'nobody' is no experiment, no artifact" in done.stderr


@pytest.mark.parametrize("deep", ['{"a":' + "[" * 100_000, '{"a":' + "[" * 400 + "]" * 400 + "}"])
def test_an_action_that_is_nested_too_deeply_is_exported_as_text(rollout, tmp_path, deep):
    *rest, end = rollout[2]
    index = next(n for n, record in enumerate(rest) if record.kind == "turn")
    rest[index] = rest[index].model_copy(update={"tool": "note", "action": deep})
    path, out = write(tmp_path / "deep.jsonl.zst", [*rest, end]), tmp_path / "deep.json"
    trajectory("export", path, "--to", "atif", "-o", out)
    calls = [
        step["tool_calls"][0]["arguments"] for step in json.loads(out.read_text())["steps"] if "tool_calls" in step
    ]
    assert calls[0] == {"text": deep}
