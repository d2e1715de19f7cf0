"""Makes the tiny model of these tests: the expert is recorded in the real agents and sandbox, then learned by heart."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uchide.protocols import SandboxProvider
from uchide.records import Candidate

from . import server
from .case import Case
from .expert import Expert
from .transcript import conversations

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SERVE_PYTHON = ROOT / ".venv-serve" / "bin" / "python"
"""Made by `make serve-env` from requirements-serve.lock."""
TEXT_FORMATS = ("tool_bash", "markdown_bash", "tool_call", "toolcall")


def phases(action_format: str) -> dict[str, Any]:
    """The phases agent with few words."""
    return {"name": "phases", "spec": str(HERE / "spec" / "phases.yaml"), "action_format": action_format}


def blueprint(action_format: str) -> dict[str, Any]:
    """The blueprint agent with its own prompts; few regression tests."""
    limits = {"steps": 60, "wall_time_s": 600, "format_errors": 2, "action_timeout_s": 60}
    sampling = {"temperature": 0.0, "max_tokens": 300}
    return {
        "name": "blueprint",
        "action_format": action_format,
        "limits": limits,
        "sampling": sampling,
        "tests": {"regression": 10},
    }


@dataclass(frozen=True)
class Tiny:
    """The model's folder, and the expert's candidates by agent and action format."""

    folder: Path
    candidates: Mapping[str, Candidate]


async def make(case: Case, agents: Mapping[str, Mapping[str, Any]], sandboxes: SandboxProvider, folder: Path) -> Tiny:
    """Record one rollout of each agent (by a name for it), and learn them all by heart in one training."""
    candidates, exchanges = {}, []
    for name, config in agents.items():
        expert = Expert(config["name"], config["action_format"])
        candidates[name] = await case.rollout(config, expert, sandboxes, f"expert-{name}")
        assert candidates[name].exit_status == "completed", candidates[name]
        exchanges += expert.learned
    learn(conversations(exchanges), folder)
    return Tiny(folder, candidates)


def learn(talks: Sequence[Any], folder: Path) -> None:
    """Train in the serving environment; what it prints is kept in `<folder>.log`."""
    source, log = folder.with_suffix(".json"), folder.with_suffix(".log")
    source.write_text(json.dumps(talks))
    # Matrices this small are multiplied faster by one thread than by two that wait for one another.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    began = time.monotonic()
    with log.open("wb") as output:
        argv = [SERVE_PYTHON, HERE / "tiny" / "make.py", source, folder]
        done = subprocess.run(argv, stdout=output, stderr=subprocess.STDOUT, env=env, check=False)
    said = log.read_text(errors="replace")
    assert done.returncode == 0, said[-2000:]
    print(f"{said}made in {time.monotonic() - began:.1f} s")


@contextmanager
def serve(tiny: Tiny) -> Iterator[server.Server]:
    """llama.cpp's server with the model `tiny`."""
    port = server.free_port()
    argv = [SERVE_PYTHON, HERE / "tiny" / "serve.py", tiny.folder / "model.gguf", str(port)]
    with server.running(argv, port, tiny.folder / "server.log") as running:
        yield running
