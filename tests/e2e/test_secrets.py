"""Secrets that a model, its server and its users spill are in no byte of what an experiment leaves behind.

A real sweep (real dataset, sandbox, agent, grader, report) with a model that says every secret it can see.
"""

import base64
import html
import io
import json
import os
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from support.hostile import CHECKOUT

IGNORE = shutil.ignore_patterns("__pycache__", "*.pyc")
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-planted-0Nmk2LQhFq7rTzUw",
    "HF_TOKEN": "hf_plantedXw83kdJq02mSLtYv",
    "AWS_SECRET_ACCESS_KEY": "planted/+Zp9(x)[y]*eK4.mQ\\d8",
    "GIT_PASSWORD": "planted & <hunter2> battery",
    "DATABASE_URL": "postgresql://tester:planted-pw-5521@db.example/x",
}
IN_HEADERS = ("planted-bearer-77ab12cd", "planted-cookie-9f8e7d6c", "planted-header-key-31337")
HEADERS = (
    "{'Authorization': 'Bearer planted-bearer-77ab12cd', 'Set-Cookie': 'session=planted-cookie-9f8e7d6c; Path=/', "
    "'x-api-key': 'planted-header-key-31337'}"
)
IN_COMMENT = "planted-comment-4242"
SECRETS = (*(value for name, value in ENVIRONMENT.items() if name != "DATABASE_URL"), "planted-pw-5521", *IN_HEADERS)
EXPERIMENT = f"""\
# api_key: {IN_COMMENT}
name: leak
dataset: {{ name: mini, ids: [slateconf-101] }}
runs: 2
model: leaky
policy: {{ max_infra: 1 }}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A checkout with one more model."""
    path = tmp_path_factory.mktemp("secrets") / "checkout"
    for folder in ("src/uchide", "stages", "workflow", "profiles", "datasets/mini"):
        shutil.copytree(CHECKOUT / folder, path / folder, ignore=IGNORE)
    for file in ("Snakefile", "pyproject.toml"):
        shutil.copy(CHECKOUT / file, path / file)
    registry = path / "src/uchide/llm/__init__.py"
    entry = '"mutator": "uchide.llm.mutator"'
    assert entry in registry.read_text()
    registry.write_text(registry.read_text().replace(entry, f'{entry}, "leaky": "uchide.llm.leaky"'))
    shutil.copy(CHECKOUT / "tests/support/leaky.py", path / "src/uchide/llm/leaky.py")
    (path / "experiments").mkdir()
    (path / "experiments/leak.yaml").write_text(EXPERIMENT)
    return path


def uchide(checkout: Path, *args: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("UCHIDE")}
    own = {
        "PYTHONPATH": str(checkout / "src"),
        "UCHIDE_CACHE": str(checkout.parent / "cache"),
        "PLANTED_NAMES": json.dumps([name for name in ENVIRONMENT if name != "DATABASE_URL"]),
        "PLANTED_HEADERS": HEADERS,
    }
    argv = [sys.executable, "-P", "-m", "uchide.cli.main", *args, "--root", str(checkout)]
    return subprocess.run(
        argv, env={**clean, **own, **ENVIRONMENT, **env}, cwd=checkout, capture_output=True, check=False, timeout=300
    )


def forms(secret: str) -> set[bytes]:
    """A secret as it is, and as JSON, HTML, an address or base64 would hold it."""
    data = secret.encode()
    inner = [base64.b64encode(b"x" * shift + data)[4:-4] for shift in range(3)]
    texts = {json.dumps(secret)[1:-1], repr(secret)[1:-1], html.escape(secret), urllib.parse.quote(secret)}
    return {data, *inner, *(text.encode() for text in texts)}


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below, as it is and decompressed."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        yield path, data
        if path.suffix == ".zst" and data:
            yield path, zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
        if path.suffix == ".parquet":
            import pandas

            yield path, pandas.read_parquet(path).to_json().encode()


def found(secrets: tuple[str, ...], pieces: Iterator[tuple[Path, bytes]]) -> list[str]:
    wanted = {form: secret for secret in secrets for form in forms(secret)}
    return [f"{secret!r} in {path}" for path, data in pieces for form, secret in wanted.items() if form in data]


@pytest.mark.sandbox
def test_planted_secrets_are_in_no_byte(checkout):
    crashed = uchide(checkout, "run", "leak", "--until", "bench", PLANTED_FAULT="1")
    assert crashed.returncode == 1
    assert b"fault in uchide: RuntimeError: unexpected answer with" in crashed.stdout + crashed.stderr
    done = uchide(checkout, "run", "leak")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = uchide(checkout, "show", "leak", "slateconf-101")
    said = b"".join(run.stdout + run.stderr for run in (crashed, done, shown))

    trails = list(contents(checkout / "artifacts"))
    trajectory = next(data for path, data in trails if "r01" in path.name and data.startswith(b'{"kind":"header"'))
    assert b"I know [redacted] and [redacted] and [redacted] and [redacted]." in trajectory
    assert b'"action":"printf' in trajectory or b"printf '%s" in trajectory
    rows = b"".join(data for path, data in trails if path.name == "rows.jsonl" and "generate" in str(path))
    assert b"was taken out of the patch or the suite" in rows
    assert b"+# [redacted]" in rows
    assert b"HTTP 401 from https://models.example" in rows
    page = (checkout / "reports/leak/index.html").read_bytes()
    assert b"slateconf-101" in page
    assert b"# api_key: [redacted]" in next(data for path, data in trails if path.name == "experiment.yaml")

    places = [*trails, *contents(checkout.parent / "cache" / "verdicts"), (Path("terminal"), said)]
    assert len(places) > 30
    assert not found((*SECRETS, IN_COMMENT), iter(places))


@pytest.mark.sandbox
def test_artifacts_still_fit_together(checkout):
    done = uchide(checkout, "artifacts", "verify")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ("model: {name: leaky, api_key: planted}", "model.api_key"),
        ("model: {name: leaky, headers: {Authorization: planted}}", "model.headers.Authorization"),
        ("agent: {name: phases, options: [{hub_token: planted}]}", "agent.options.0.hub_token"),
        ("arms: {a: {model: {name: leaky, GIT_PASSWORD: planted}}}", "arms.a.model.GIT_PASSWORD"),
        ("model: {name: leaky, url: 'https://me:planted@host/v1'}", "model.url"),
        ("title: use sk-planted0123456789abcdef", "title"),
        ("title: use planted-pw-5521", "title"),
    ],
)
def test_a_secret_in_an_experiment_file_is_refused_and_not_repeated(checkout, lines, key):
    text = EXPERIMENT.replace("model: leaky\n", "").replace("name: leak\n", "name: spilt\n") + lines + "\n"
    (checkout / "experiments/spilt.yaml").write_text(text)
    done = uchide(checkout, "run", "spilt")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert f"spilt.yaml:6: {key} holds a secret in plain text\n".encode() in said
    assert b"name that here (api_key_env: OPENAI_API_KEY)" in said
    assert b"planted" not in said
    assert not (checkout / "artifacts/spilt").exists()


def test_names_of_variables_and_token_limits_are_no_secrets(checkout):
    text = EXPERIMENT + "agent: {name: phases, limits: {tokens: 4096}}\n"
    (checkout / "experiments/plain.yaml").write_text(text.replace("leaky", "{name: leaky, api_key_env: HF_TOKEN}"))
    assert uchide(checkout, "run", "plain", "--dry-run").returncode == 0
