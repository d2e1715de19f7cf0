"""What this host lacks to run Uchide: every check is made for real, and what fails says how to mend it."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from uchide.errors import UchideError
from uchide.protocols import Command, SandboxSpec
from uchide.sandboxes import layout, program
from uchide.sandboxes.bwrap import BwrapProvider

OLDEST_PYTHON = (3, 11)
NEEDED_MB = {"cache": 3000, "artifacts": 1000, "memory": 3000}

PROBE = """
import os, socket, sys
canary, home = sys.argv[1:]
found = []
try:
    socket.create_connection(("192.0.2.1", 80), 2)
    found.append("the network is reachable")
except OSError as error:
    if error.errno != 101:
        found.append("the network answers: %s" % error)
if os.path.exists(canary):
    found.append("a file of the host is visible: " + canary)
for name in (".ssh", ".bashrc", ".profile", ".gitconfig", ".config", ".cache"):
    if os.path.exists(os.path.join(home, name)):
        found.append("the host's home is visible: " + os.path.join(home, name))
for place in ("/", "/usr", "/etc", "/dev", "/proc/sys/kernel"):
    if os.access(place, os.W_OK):
        found.append(place + " is writable")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
if int(status["CapEff"], 16) or int(status["CapBnd"], 16):
    found.append("capabilities are left")
if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
    found.append("new privileges or all system calls are allowed")
print("; ".join(found))
sys.exit(bool(found))
"""


@dataclass(frozen=True)
class Check:
    """One thing that Uchide needs. `fix` says what to do where `ok` is false."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def checks(*, cache: Path, artifacts: Path) -> list[Check]:
    """Check this host; takes about a second. `cache` and `artifacts` are where much will be written."""
    return [
        check_python(),
        check_program("git", "git", ["git", "--version"]),
        check_program("tar", "tar", ["tar", "--version"]),
        check_bwrap(),
        asyncio.run(check_sandbox()),
        check_memory(),
        check_disk("cache", cache),
        check_disk("artifacts", artifacts),
    ]


def check_python() -> Check:
    have = ".".join(map(str, sys.version_info[:3]))
    needed = ".".join(map(str, OLDEST_PYTHON))
    return Check(
        "python", sys.version_info >= OLDEST_PYTHON, f"{have} at {sys.executable}", f"install {needed} or newer"
    )


def check_program(name: str, package: str, argv: list[str]) -> Check:
    """Run a program of the system that says its version."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, False, str(error), f"sudo apt-get install {package}")
    said = (done.stdout or done.stderr).strip().partition("\n")[0]
    return Check(name, done.returncode == 0, said, f"sudo apt-get install --reinstall {package}")


def check_bwrap() -> Check:
    try:
        place = program.find()
    except UchideError as error:
        return Check("bwrap", False, error.message, error.hint)
    return Check("bwrap", True, f"{'.'.join(map(str, program.version_of(place) or ()))} at {place}")


async def check_sandbox() -> Check:
    """Start a real sandbox and look out of it: no network, nothing of the host, nothing writable, no privileges."""
    with tempfile.TemporaryDirectory(prefix="uchide-doctor-") as folder:
        argv = (str(layout.guest_python()[0]), "-I", "-S", "-c", PROBE, folder, str(Path.home()))
        (Path(folder) / "tree").mkdir()
        try:
            async with BwrapProvider().open(SandboxSpec(tree=Path(folder) / "tree")) as sandbox:
                done = await sandbox.run(Command(argv, timeout_s=60))
        except UchideError as error:
            return Check("sandbox", False, error.message, error.hint or "report this with the message as it stands")
    said = done.output.decode("utf-8", "replace").strip()
    good = "a real one started: no network, host hidden, only its tree, share and /tmp writable"
    return Check("sandbox", done.returncode == 0, said or good, "do not run agents on this host; report what was found")


def check_memory() -> Check:
    """See that the memory of one sandbox is there."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    have = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))
    fix = f"free memory: one sandbox may use {NEEDED_MB['memory']} MB"
    return Check("memory", have >= NEEDED_MB["memory"], f"{have} MB available", fix)


def check_disk(name: str, folder: Path) -> Check:
    """See that there is room where `folder` is or will be, and that it can be written."""
    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free // 1_000_000
    except OSError as error:
        return Check(name, False, f"{place}: {error.strerror}", f"make {place} writable, or choose another folder")
    needed = NEEDED_MB[name]
    return Check(name, free >= needed, f"{free} MB free for {folder}", f"free {needed} MB on the disk of {place}")
