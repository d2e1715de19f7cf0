"""The bundled benchmark: every instance is a real bug, and preparing it needs no network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from uchide.datasets import environments, load, prepare_hidden, prepare_public, trees
from uchide.datasets.git import git, init
from uchide.datasets.mini import MiniDataset
from uchide.datasets.mini_check import run_both
from uchide.errors import DatasetError, EnvironmentBuildError

FOLDER = Path(__file__).parents[2] / "datasets" / "mini"
MINI = MiniDataset(FOLDER)


def test_size_and_splits():
    assert len(MINI.ids) >= 12
    assert len({MINI.repo(one) for one in MINI.ids}) == 3
    assert {MINI.split(one) for one in MINI.ids} == {"train", "heldout"}
    assert len([one for one in MINI.ids if MINI.issue(one).snippet is None]) == 2


QUICK = ("slateconf-104", "spanlib-201", "gridtext-303")
"""Run always; the preflight of a mini sweep runs all of them anyway."""


@pytest.mark.parametrize(
    "instance_id", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in MINI.ids]
)
def test_base_fails_exactly_fail_to_pass_and_the_fix_passes_all(instance_id):
    base, gold = run_both(MINI, instance_id)
    lists = MINI.test_lists(instance_id)
    assert sorted(test for test, status in base.items() if status != "passed") == sorted(lists.fail_to_pass)
    assert set(gold) == {*lists.fail_to_pass, *lists.pass_to_pass}
    assert set(gold.values()) == {"passed"}


@pytest.mark.parametrize("instance_id", MINI.ids)
def test_visible_tests_do_not_show_the_bug(instance_id):
    visible = {path.name for path in (FOLDER / "repos" / MINI.repo(instance_id) / "tests").iterdir()}
    assert (
        not {test.split("::")[0].removeprefix("tests/") for test in MINI.test_lists(instance_id).fail_to_pass} & visible
    )


async def test_prepared_instance(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path / "cache"))
    events: list[str] = []
    public = await prepare_public(MINI, "spanlib-201", tmp_path / "trees", None, events.append)
    archive = tmp_path / "trees" / f"{public.tree}.tar.zst"
    hidden = await prepare_hidden(MINI, "spanlib-201", public, archive, None, events.append)
    shown = public.model_dump_json()
    assert not [word for word in (MINI.row("spanlib-201").fault, *hidden.fail_to_pass, "bug.patch") if word in shown]

    tree = tmp_path / "tree"
    trees.unpack(archive, tree)
    assert not (tree / hidden.test_files[0].path).exists()
    git(tree, "apply", stdin=hidden.gold_patch.encode())
    assert trees.content_digest(tree) == trees.content_digest(FOLDER / "repos" / "spanlib")

    built = environments.locate(public.environment.key)
    assert _pytest_version(built.root).startswith("pytest")
    assert built.version == public.environment.python
    again = await prepare_public(MINI, "slateconf-101", tmp_path / "trees", None, events.append)
    assert again.environment.key == public.environment.key
    assert len(events) == 1


def test_snippets_print_what_the_issue_says(tmp_path):
    for instance_id in MINI.ids:
        issue = MINI.issue(instance_id)
        if issue.snippet is None:
            continue
        tree = tmp_path / instance_id
        MINI.lay_base(instance_id, tree)
        init(tree)
        printed = [_print(tree, issue.snippet)]
        MINI.gold_patch(instance_id, tree)
        assert [*printed, _print(tree, issue.snippet)] == [issue.observed, issue.expected], instance_id


def _pytest_version(root: Path) -> str:
    argv = [root / "bin" / "python", "-I", "-m", "pytest", "--version"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def _print(tree: Path, snippet: str) -> str:
    env = {"PYTHONPATH": str(tree / "src"), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", snippet], cwd=tree, env=env, capture_output=True, text=True).stdout


def test_digest_follows_the_content(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "mini")
    assert load("mini", tmp_path / "mini").digest == MINI.digest
    with (tmp_path / "mini" / "instances" / "spanlib-201" / "instance.yaml").open("a") as file:
        file.write("# one more line\n")
    assert load("mini", tmp_path / "mini").digest != MINI.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repo: spanlib\nsplit: test\nfault: f\nproblem_statement: p\n", ["split"]),
        ("repo: spanlib\nsplit: train\nfault: f\n", ["problem_statement", "required"]),
        ("repo: [\n", ["instance.yaml"]),
        ("repo: nowhere\nsplit: train\nfault: f\nproblem_statement: p\n", ["nowhere", "missing"]),
        ("repo: spanlib\nsplit: train\nfault: f\nproblem_statement: p\nsnipet: s\n", ["snipet"]),
    ],
)
def test_bad_instances(tmp_path, text, words):
    (tmp_path / "repos" / "spanlib").mkdir(parents=True)
    (tmp_path / "instances" / "x").mkdir(parents=True)
    (tmp_path / "instances" / "x" / "instance.yaml").write_text(text)
    with pytest.raises(DatasetError) as caught:
        load("mini", tmp_path)
    assert all(word in str(caught.value) for word in words)


def test_no_instances(tmp_path):
    with pytest.raises(DatasetError, match="holds no instances"):
        load("mini", tmp_path)


def test_missing_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("UCHIDE_CACHE", str(tmp_path))
    with pytest.raises(EnvironmentBuildError, match="run the prepare stage"):
        environments.locate("0" * 32)
