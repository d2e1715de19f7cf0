"""The terminal: text of agents and models shows, and does nothing else; progress in both forms."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from uchide.cli.display import OnTerminal, Plain, describe, progress_table
from uchide.cli.experiment import without_from
from uchide.cli.text import duration, safe, table
from uchide.pipeline.progress import Reporter, StageProgress, Watcher

EVIL = "\x1b]0;owned\x07\x1b[2J[bold]no[/bold] \u202e\x9b31m\r\n[/nope]"


def test_safe_text_has_no_control_bytes():
    shown = safe(EVIL)
    assert not [char for char in shown if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0]
    assert "[bold]no[/bold]" in shown


class FakeLive:
    def __init__(self):
        self.out = io.StringIO()
        self.console = Console(file=self.out, force_terminal=True, width=120)
        self.shown = None

    def update(self, shown, refresh):
        self.shown = shown
        self.console.print(shown)


def test_events_on_a_terminal_are_text_and_not_markup():
    live = FakeLive()
    stage = StageProgress("bench-generate", jobs=4, jobs_done=1, total=40, done=10, infra=2, failed=1)
    OnTerminal(live).tick([stage], [EVIL])
    out = live.out.getvalue()
    assert "[bold]no[/bold]" in out
    assert "\x1b]0" not in out
    assert "\x1b[2J" not in out
    for words in ("10/40", "1/4", "bench-generate"):
        assert words in out


def test_plain_lines(capsys):
    plain = Plain()
    stage = StageProgress("tts-matrix", jobs=1, total=8)
    plain.tick([stage], [EVIL])
    assert "[/nope]" in capsys.readouterr().out
    stage.started, stage.done = True, 2
    plain.tick([stage], [])
    plain.tick([stage], [])
    assert capsys.readouterr().out.startswith("tts-matrix: 2/8 rows")
    stage.done, stage.jobs_done = 8, 1
    plain.tick([stage], [])
    assert capsys.readouterr().out == "tts-matrix: 8/8 rows, done\n"


def test_describe_names_failures_and_time_left():
    stage = StageProgress("x", jobs=3, jobs_done=1, total=30, done=10, infra=1, failed=2, started=True, first_seen=0.0)
    assert describe(stage, 100.0) == "x: 10/30 rows, 1/3 jobs, 1 infra, 2 failed, about 3 min left"
    assert describe(StageProgress("x"), 1.0) == ""
    assert progress_table([stage]).row_count == 1


def test_reporter_and_watcher_meet_in_a_file(tmp_path):
    watcher = Watcher(tmp_path, {"a": ("bench-generate", 5), "b": ("bench-generate", 5)})
    assert watcher.stages()[0].total == 10
    reporter = Reporter(tmp_path / "a.json", "bench-generate")
    reporter.counts(done=1, infra=0, total=4)
    reporter.event(EVIL)
    reporter.end("broke")
    assert watcher.poll() == [f"bench-generate: {EVIL}"]
    assert watcher.poll() == []
    (stage,) = watcher.stages()
    assert (stage.total, stage.done, stage.failed, stage.jobs) == (9, 1, 1, 2)
    assert watcher.errors() == {"a": "broke"}
    assert json.loads((tmp_path / "a.json").read_text())["ended"] is True


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (100, "2 min"), (7500, "2 h 05 min")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_table_keeps_cells_on_one_line():
    assert table([["a\nb", "c"], ["d", "e"]], head=["x", "y"]).split("\n") == ["x    y", "a b  c", "d    e"]


def test_a_terminal_that_is_not_utf8_shows_everything_else(tmp_path):
    (tmp_path / "pyproject.toml").write_text('name = "uchide"\n')
    (tmp_path / "experiments").mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    argv = [sys.executable, "-m", "uchide.cli.main", "run", "\u65e5\u672c", "--root", str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"there is no experiment '\\u65e5\\u672c'" in done.stderr
    assert b"Traceback" not in done.stderr


def test_display_on_a_real_terminal():
    code = (
        "from uchide.cli.display import display\n"
        "from uchide.pipeline.progress import StageProgress\n"
        "with display() as screen:\n"
        "    screen.tick([StageProgress('bench-grade', jobs=1, total=3, done=1)], ['hello [x] \\x1b[2J'])\n"
    )
    master, slave = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", code], stdout=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    child.wait(20)
    out = os.read(master, 65536).decode()
    os.close(master)
    assert "hello [x]" in out
    assert "\x1b[2J" not in out
    assert "bench-grade" in out


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["run", "x", "--from", "bench", "-i", "a"], ["run", "x", "-i", "a"]),
        (["run", "--from=tts-pick", "x"], ["run", "x"]),
        (["run", "x", "--until", "bench"], ["run", "x", "--until", "bench"]),
    ],
)
def test_going_on_does_not_begin_anew(words, left):
    assert without_from(words) == left


@pytest.mark.parametrize(
    ("option", "value", "known"), [("--split", "typo", "heldout, train"), ("--repo", "nix", "known: ")]
)
def test_a_filter_of_ids_that_nothing_can_match_is_an_error(option, value, known):
    argv = [sys.executable, "-m", "uchide.cli.main", "dataset", "ids", "mini", option, value]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"there is no '{value}' in mini" in done.stderr
    assert known in done.stderr
