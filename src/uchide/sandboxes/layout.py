"""What a sandbox looks like: the arguments of `bwrap`, made from a `SandboxSpec` and the host's own layout.

Pure functions; nothing here starts anything. Order matters: later mounts lie over earlier ones.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from uchide.errors import ConfigError
from uchide.protocols import Limits, Mount, SandboxSpec

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parent / "tools"
Shares = Mapping[str, tuple[int, str]]
GUEST = "/run/uchide/guest.py"
WRITABLE: Shares = {"/testbed": (10, "0755"), "/tmp": (4, "1777"), "/share": (1, "0755"), "/dev/shm": (1, "1777")}
"""Writable folders: sixteenths of `Limits.disk_mb`, mode."""

SYSTEM_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
HOST_ETC = ("ld.so.cache", "alternatives", "localtime", "ssl/certs", "mime.types", "services", "protocols")
PROC_KEPT = frozenset({"self", "thread-self", "net", "tty", "sysvipc", "sys", "mounts"})
PROC_HIDDEN = frozenset({"cmdline", "config.gz", "iomem", "ioports", "kallsyms", "key-users", "keys"})
ISOLATION = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "uchide", "--clearenv"),
    *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1"),
)


def fixed_env() -> dict[str, str]:
    """Return the environment variables of every command; nothing of the host's environment is among them."""
    return {
        "PATH": "/env/bin:/usr/bin:/bin",
        "HOME": "/tmp/home",
        "USER": "agent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "UCHIDE_SHARE": "/share",
        "UCHIDE_TOOLS": "/tools",
    }


def show(host: Path | str, guest: Path | str | None = None) -> list[str]:
    """Mount read-only, at the same path unless told otherwise."""
    return ["--ro-bind", str(host), str(guest or host)]


def hide_folder(guest: Path | str) -> list[str]:
    """Put an empty read-only folder over `guest`."""
    return ["--tmpfs", str(guest), "--remount-ro", str(guest)]


def system() -> list[str]:
    """Return the mounts of the host's programs and of the few files of /etc that they need."""
    args = show("/usr")
    for name in SYSTEM_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            args += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            args += show(path)
    for file in sorted((HERE / "etc").iterdir()):
        args += show(file, f"/etc/{file.name}")
    for name in HOST_ETC:
        path = Path("/etc", name)
        if path.exists():
            args += show(path.resolve(), path)
    return [*args, "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]


def kernel_views(proc: Path = Path("/proc")) -> list[str]:
    """Return /proc and /dev without what is about the whole host.

    For a controller run by root the sandbox's user is root to the kernel: what root may write in /proc must be covered.
    """
    args = ["--proc", "/proc", *show("/proc/sys")]
    for entry in sorted(proc.iterdir()):
        if entry.name.isdigit() or entry.name in PROC_KEPT or entry.is_symlink():
            continue
        if entry.is_dir():
            args += hide_folder(entry)
        elif entry.name in PROC_HIDDEN or entry.stat().st_mode & 0o222 or not entry.stat().st_mode & 0o004:
            args += show("/dev/null", entry)
    return [*args, "--dev", "/dev"]


def interpreters(homes: Iterable[Path], *, hide_system_packages: bool) -> list[str]:
    """Show Python installations without the packages installed into them: a fixed release may be among those."""
    args: list[str] = []
    hidden = [Path("/usr"), Path("/usr/local")] if hide_system_packages else []
    for home in sorted(set(homes)):
        if not home.is_relative_to("/usr"):
            args += show(home)
            hidden.append(home)
    for home in hidden:
        for packages in sorted({*home.glob("lib*/python*/site-packages"), *home.glob("lib*/python*/dist-packages")}):
            if packages.is_dir() and not packages.is_symlink():
                args += hide_folder(packages)
    return args


def tools(names: Iterable[str]) -> list[str]:
    """Return the mounts of the named tools. Raises ConfigError for a tool that does not exist."""
    args = ["--dir", "/tools"]
    for name in names:
        path = TOOLS / name
        if path.parent != TOOLS or not path.exists():
            known = sorted(entry.name for entry in TOOLS.iterdir() if not entry.name.startswith("__"))
            raise ConfigError(f"no sandbox tool {name!r}", hint=f"known: {', '.join(known)}")
        args += show(path, f"/tools/{name}")
    return args


def mounts(wanted: Iterable[Mount]) -> list[str]:
    """Return further read-only mounts. Raises ConfigError when a host path does not exist."""
    args: list[str] = []
    for mount in wanted:
        if not mount.host.exists():
            raise ConfigError(f"cannot show {mount.host} in the sandbox at {mount.guest}: it does not exist")
        args += show(mount.host.resolve(), mount.guest)
    return args


def writable(limits: Limits, shares: Shares = WRITABLE, folders: Mapping[str, Path] | None = None) -> list[str]:
    """Return the writable folders, each a memory file system of its own; together they hold `limits.disk_mb`.

    `folders` are writable folders of the host, guest path to host path. All else is made read-only.
    """
    args: list[str] = []
    for path, (sixteenths, mode) in shares.items():
        args += ["--perms", mode, "--size", str(limits.disk_mb * 65536 * sixteenths), "--tmpfs", path]
    for guest, host in (folders or {}).items():
        args += ["--bind", str(host), guest]
    return [*args, "--dir", "/tmp/home", "--remount-ro", "/dev", "--remount-ro", "/"]


def guest_python() -> tuple[Path, Path]:
    """Return the interpreter that runs Uchide and its base prefix: it runs the guest too."""
    home = Path(sys.base_prefix).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return home / "bin" / name, home


def sandbox_args(spec: SandboxSpec) -> list[str]:
    """Return all arguments of `bwrap` before the program to run, for a sandbox without network."""
    homes = [guest_python()[1], *([spec.python_home] if spec.python_home else [])]
    environment = [Mount(spec.environment, "/env")] if spec.environment else []
    return [
        *ISOLATION,
        "--unshare-net",
        *system(),
        *interpreters(homes, hide_system_packages=spec.environment is not None),
        *kernel_views(),
        *show(HERE / "guest.py", GUEST),
        *mounts(environment),
        *tools(spec.tools),
        *mounts(spec.mounts),
        *writable(spec.limits),
        *("--chdir", "/testbed"),
    ]
