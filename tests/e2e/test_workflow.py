"""The workflow that a push starts, run for real and offline by `act`: exactly the experiment that changed is run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACT = shutil.which("act", path=str(Path(sys.executable).parent))
TINY = "name: tiny\ndataset: { name: mini, ids: [spanlib-208] }\nruns: 1\nmodel: { name: mutator, mutants: 60 }\n"
NOTHING = 'name: upload\nruns: { using: composite, steps: [ { run: "true", shell: bash } ] }\n'


@pytest.mark.slow
@pytest.mark.skipif(ACT is None, reason="act comes with make dev")
def test_a_push_runs_exactly_the_experiment_it_changes(tmp_path: Path) -> None:
    clone, upload = tmp_path / "clone", tmp_path / "upload"

    def git(*args: str) -> str:
        argv = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *args]
        return subprocess.run(argv, cwd=clone, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    before = git("rev-parse", "HEAD")
    (clone / "experiments" / "tiny.yaml").write_text(TINY)
    git("add", "-A")
    git("commit", "-q", "-m", "tiny")
    event = {"before": before, "after": git("rev-parse", "HEAD"), "ref": "refs/heads/main"}
    (tmp_path / "event.json").write_text(json.dumps(event))
    upload.mkdir()
    (upload / "action.yml").write_text(NOTHING)
    workflow = (clone / ".github/workflows/experiment.yml").read_text()
    action = re.search(r"actions/upload-artifact@[0-9a-f]{40}", workflow)
    assert action
    argv = [str(ACT), "push", "-W", ".github/workflows/experiment.yml", "-P", "ubuntu-latest=-self-hosted"]
    argv += ["--no-cache-server", "--action-offline-mode", "--local-repository", f"{action[0]}={upload}"]
    argv += ["-e", str(tmp_path / "event.json")]
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(argv, cwd=clone, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.findall(r"report: \S+/reports/(\S+)/index.html", done.stdout) == ["tiny"]
    assert "Summary - ## tiny" in done.stdout
