"""Runs existing tests through run_tests.py, with edited files laid over the tree in memory."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
GOOD = ("passed", "skipped", "xfailed", "xpassed")
PER_TEST_S = 20


class ToolError(Exception):
    """A tool that the search depends on failed; the text says which and how."""


class TestRun(NamedTuple):
    """Statuses by test id."""

    statuses: Dict[str, str]

    @property
    def failed(self) -> List[str]:
        return sorted(name for name, status in self.statuses.items() if status not in GOOD)


def run_tests(root: str, ids: Sequence[str], overlay: Optional[Dict[str, bytes]] = None) -> TestRun:
    """Run the ids; files of `overlay` (paths relative to the root) stand in for those of the tree."""
    with tempfile.TemporaryDirectory(prefix="try_edits") as scratch:
        ids_file = os.path.join(scratch, "ids.txt")
        with open(ids_file, "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in ids))
        env = dict(os.environ)
        if overlay:
            env = _overlay_env(env, scratch, root, overlay)
        argv = ["--ids-file", ids_file, "--per-test-timeout", str(PER_TEST_S)]
        rows = _call(root, argv, os.path.join(scratch, "out.jsonl"), env)
    statuses = {row["id"]: row["status"] for row in rows if "id" in row}
    for name in ids:
        statuses.setdefault(name, "not_found")
    return TestRun(statuses)


def collect(root: str, targets: Sequence[str]) -> List[str]:
    """Test ids under the given files or labels."""
    with tempfile.TemporaryDirectory(prefix="try_edits") as scratch:
        rows = _call(root, ["--collect"] + list(targets), os.path.join(scratch, "out.jsonl"), dict(os.environ))
    return [row["id"] for row in rows if "id" in row]


def _overlay_env(env: Dict[str, str], scratch: str, root: str, overlay: Dict[str, bytes]) -> Dict[str, str]:
    folder = os.path.join(scratch, "site")
    os.mkdir(folder)
    shutil.copyfile(os.path.join(HERE, "overlay.py"), os.path.join(folder, "sitecustomize.py"))
    texts = {os.path.join(os.path.realpath(root), path): data.decode("utf-8") for path, data in overlay.items()}
    with open(os.path.join(scratch, "overlay.json"), "w", encoding="utf-8") as file:
        json.dump(texts, file)
    env["TRY_EDITS_OVERLAY"] = os.path.join(scratch, "overlay.json")
    env["PYTHONPATH"] = os.pathsep.join([folder] + [p for p in [env.get("PYTHONPATH")] if p])
    return env


def _call(root: str, argv: Sequence[str], out: str, env: Dict[str, str]) -> List[Dict[str, str]]:
    tools = os.environ.get("UCHIDE_TOOLS") or os.path.dirname(HERE)
    command = [sys.executable, os.path.join(tools, "run_tests.py"), "--out", out] + list(argv)
    done = subprocess.run(
        command,
        cwd=root,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if not os.path.exists(out):
        if done.returncode in (1, 2):
            return []
        text = done.stdout.decode("utf-8", "replace")[-800:]
        raise ToolError("run_tests.py ended with %d and wrote no report: %s" % (done.returncode, text))
    with open(out, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
