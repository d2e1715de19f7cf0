"""A sandbox with network, for building environments and nothing else; agents and graders never come near it.

The same isolation but for the network: the host's name resolution and certificates, and from pip's configuration only
where packages come from. Code run here can reach whatever the host can reach.
"""

import configparser
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uchide.protocols import Command, ExecResult, Limits, Mount
from uchide.sandboxes import layout, program
from uchide.sandboxes.bwrap import started

LIMITS = Limits(memory_mb=6144, processes=400, disk_mb=3072, file_mb=2048)
SHARES: layout.Shares = {"/tmp": (15, "1777"), "/dev/shm": (1, "1777")}
HOST_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pki/tls/certs", "/etc/pki/ca-trust")
NETWORK_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PIP_SECTIONS = ("global", "install", "download", "wheel")
PIP_OPTIONS = frozenset(
    {"index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy"}
    | {"timeout", "default-timeout", "retries", "constraint", "build-constraint", "pre", "prefer-binary"}
    | {"only-binary", "no-binary", "disable-pip-version-check"}
)


async def run_with_network(
    argv: Sequence[str],
    *,
    writable: Mapping[str, Path],
    readable: Mapping[str, Path],
    env: Mapping[str, str],
    timeout_s: float,
    limits: Limits = LIMITS,
) -> ExecResult:
    """Run one command with network in /tmp; mounts are guest path to host path.

    Only `writable` outlives the command. Raises SandboxError, SandboxUnavailable, and ConfigError for a missing mount.
    """
    with tempfile.TemporaryDirectory(prefix="uchide-pip-") as scratch:
        settings = pip_settings(_pip_files())
        pip_file = Path(scratch) / "pip.conf"
        with pip_file.open("w", encoding="utf-8") as file:
            settings.write(file)
        variables = network_env(os.environ)
        sources = sorted(set(local_paths([*variables.values(), *_values(settings)])))
        args = [
            *layout.ISOLATION,
            *layout.system(),
            *[arg for path in map(Path, HOST_NETWORK) if path.exists() for arg in layout.show(path.resolve(), path)],
            *layout.interpreters([layout.guest_python()[1]], hide_system_packages=False),
            *layout.mounts([Mount(path, str(path)) for path in sources]),
            *layout.show(pip_file, "/etc/pip.conf"),
            *layout.kernel_views(),
            *layout.show(layout.HERE / "guest.py", layout.GUEST),
            *layout.mounts([Mount(host, guest) for guest, host in readable.items()]),
            *layout.writable(limits, SHARES, {guest: host.resolve() for guest, host in writable.items()}),
            *("--chdir", "/tmp"),
        ]
        command = Command(tuple(argv), cwd="/tmp", timeout_s=timeout_s)
        variables = layout.fixed_env() | variables | dict(env)
        async with started(program.find(), args, variables, limits, shares=SHARES) as sandbox:
            return await sandbox.run(command)


async def build_command(
    argv: Sequence[str],
    *,
    writable: Mapping[str, Path],
    readable: Mapping[str, Path],
    env: Mapping[str, str],
    timeout_s: float,
) -> tuple[int, str]:
    """Like `run_with_network`, giving exit status and output as text; a killed command has status -1 and says why."""
    done = await run_with_network(argv, writable=writable, readable=readable, env=env, timeout_s=timeout_s)
    text = done.output.decode("utf-8", "replace")
    if done.returncode is None:
        return -1, f"{text}\n[killed: {done.killed} after {done.wall_s:.0f} s]"
    return done.returncode, text


def network_env(host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `host` that say how to reach the network and where packages come from."""
    kept = {name: host[name] for name in NETWORK_VARIABLES if name in host}
    kept |= {name: value for name, value in host.items() if name.lower() in PROXY_VARIABLES}
    for name, value in host.items():
        if name.startswith("PIP_") and name.removeprefix("PIP_").lower().replace("_", "-") in PIP_OPTIONS:
            kept[name] = value
    return kept


def pip_settings(files: Sequence[Path]) -> configparser.RawConfigParser:
    """Merge pip's configuration files, later ones winning, down to where packages come from."""
    merged = configparser.RawConfigParser()
    for path in files:
        if not path.is_file():
            continue
        parser = configparser.RawConfigParser()
        parser.read(path, encoding="utf-8")
        for section in set(parser.sections()) & set(PIP_SECTIONS):
            if not merged.has_section(section):
                merged.add_section(section)
            for option, value in parser.items(section):
                if option.replace("_", "-") in PIP_OPTIONS:
                    merged.set(section, option, value)
    return merged


def local_paths(values: Sequence[str]) -> Iterator[Path]:
    """Yield the files and folders of this host that configuration values name, as paths or as file: addresses.

    Of an index `.../simple` it is the folder above, for the pages of an index point to files beside it.
    """
    for word in " ".join(values).replace(",", " ").split():
        path = Path(os.path.normpath(word.removeprefix("file://")))
        if word.startswith("file://") and path.name == "simple":
            path = path.parent
        if path.is_absolute() and path != Path("/") and not path.is_relative_to("/usr") and path.exists():
            yield path


def _values(settings: configparser.RawConfigParser) -> list[str]:
    return [value for section in settings.sections() for _, value in settings.items(section)]


def _pip_files() -> list[Path]:
    """Return the places where pip looks for its configuration, the strongest last."""
    home, env = Path.home(), os.environ
    system = [Path(folder) / "pip" for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    user = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip"
    named = [Path(env["PIP_CONFIG_FILE"])] if env.get("PIP_CONFIG_FILE") else []
    return [*[f / "pip.conf" for f in system], Path("/etc/pip.conf"), home / ".pip/pip.conf", user / "pip.conf", *named]
