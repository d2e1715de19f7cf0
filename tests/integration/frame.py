"""A checkout of Uchide with quick engines, for tests of the frame: real Snakemake, real store, real command line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUICK = Path(__file__).parent / "quick"
IGNORE = shutil.ignore_patterns("__pycache__", "*.pyc")

EXPERIMENT = """\
name: x
dataset: {name: quick}
runs: 2
shards: {size: 3}
agent: quick
model: none
policy: {concurrency: 2}
"""


class Checkout:
    """`counts` and friends run the real `uchide` program of this checkout."""

    def __init__(self, path: Path, cache: Path) -> None:
        self.path = path
        self.cache = cache
        self.env: dict[str, str] = {}

    @classmethod
    def make(cls, path: Path, instances: int = 5) -> "Checkout":
        for folder in ("src/uchide", "stages", "workflow", "profiles"):
            shutil.copytree(ROOT / folder, path / folder, ignore=IGNORE)
        for file in ("Snakefile", "pyproject.toml"):
            shutil.copy(ROOT / file, path / file)
        for engine in ("datasets", "agents", "llm", "sandboxes", "grading"):
            (path / "src/uchide" / engine / "__init__.py").unlink(missing_ok=True)
        shutil.copytree(QUICK / "uchide", path / "src/uchide", dirs_exist_ok=True, ignore=IGNORE)
        self = cls(path, path / "cache")
        self.write("datasets/quick/ids.txt", "\n".join(f"repo-{n}" for n in range(instances)) + "\n")
        self.write("experiments/x.yaml", EXPERIMENT)
        return self

    def write(self, rel: str, text: str) -> None:
        path = self.path / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, rel: str, old: str, new: str) -> None:
        text = (self.path / rel).read_text()
        assert old in text
        self.write(rel, text.replace(old, new, 1))

    def environment(self, **more: str) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith("UCHIDE")}
        return {**env, "PYTHONPATH": str(self.path / "src"), "UCHIDE_CACHE": str(self.cache), **self.env, **more}

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-P", "-m", "uchide.cli.main", *args, "--root", str(self.path)]

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args),
            env=self.environment(**env),
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def uchide(self, *args: str, code: int = 0, **env: str) -> str:
        """Run to the end and give standard output and error; the exit status must be `code`."""
        done = subprocess.run(
            self.command(*args),
            env=self.environment(**env),
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=170,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def counts(self, *args: str) -> dict[str, int]:
        """Part -> jobs that `uchide run` would start."""
        return self.parse_counts(self.uchide("run", "x", "--dry-run", *args))

    @staticmethod
    def parse_counts(output: str) -> dict[str, int]:
        if "nothing to run" in output:
            return {}
        (line,) = re.findall(r"^\d+ jobs? to run: (.*)$", output, re.MULTILINE)
        return {label: int(count) for label, count in (item.rsplit(" ", 1) for item in line.split(", "))}

    @property
    def store(self) -> Path:
        return self.path / "artifacts" / "store"

    def digests(self) -> dict[str, str]:
        """Artifact name -> content digest, of the whole store."""
        import json

        manifests = self.store.glob("*/manifest.json")
        return {path.parent.name: json.loads(path.read_bytes())["content_digest"] for path in manifests}
