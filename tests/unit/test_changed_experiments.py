"""A push runs exactly the experiments it changes: the workflow's script, on a real repository."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".github" / "scripts" / "changed-experiments"


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        return subprocess.run(
            ["git", *identity, *args], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, files: dict[str, str | None]) -> str:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "c")
        return self.git("rev-parse", "HEAD")

    def changed(self, before: str, after: str) -> list[str]:
        out = subprocess.run([SCRIPT, before, after], cwd=self.root, check=True, capture_output=True, text=True).stdout
        return out.splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_only_changed_and_present_experiments_run(repository: Repository) -> None:
    first = repository.commit(
        {"experiments/a.yaml": "1", "experiments/b.yaml": "1", "experiments/gone.yaml": "1", "README.md": "1"}
    )
    repository.commit({"experiments/b.yaml": "2", "README.md": "2"})
    last = repository.commit({"experiments/c.yaml": "1", "experiments/gone.yaml": None, "experiments/sub/d.yaml": "1"})
    assert repository.changed(first, last) == ["experiments/b.yaml", "experiments/c.yaml"]


@pytest.mark.parametrize("before", ["", "0" * 40, "1" * 40], ids=["empty", "new branch", "force push"])
def test_an_unknown_before_means_the_last_commit(repository: Repository, before: str) -> None:
    repository.commit({"experiments/a.yaml": "1"})
    last = repository.commit({"experiments/b.yaml": "1"})
    assert repository.changed(before, last) == ["experiments/b.yaml"]


def test_the_first_commit_of_a_repository(repository: Repository) -> None:
    assert repository.changed("0" * 40, repository.commit({"experiments/a.yaml": "1"})) == ["experiments/a.yaml"]
