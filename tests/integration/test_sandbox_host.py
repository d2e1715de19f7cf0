"""Sandboxes and the host: hosts that forbid them, the doctor, and the sandbox with network that builds environments."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from uchide.errors import ConfigError, SandboxUnavailable
from uchide.protocols import Limits
from uchide.sandboxes import build, doctor, layout, program, seccomp

pytestmark = pytest.mark.sandbox
PYTHON = str(layout.guest_python()[0])


# --- the program and the kernel --------------------------------------------------------------------------------------
def fake_bwrap(folder: Path, says: str) -> Path:
    folder.mkdir()
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def test_the_first_program_that_works_is_taken(tmp_path):
    broken = fake_bwrap(tmp_path / "a", "echo cannot load libcap >&2; exit 127")
    old = fake_bwrap(tmp_path / "b", "echo bubblewrap 0.4.1")
    good = fake_bwrap(tmp_path / "c", "echo bubblewrap 0.10.0")
    assert program.find([tmp_path / "none", broken, old, good]) == good
    with pytest.raises(SandboxUnavailable, match=r"0\.8\.0 or newer.*does not run.*is 0\.4\.1") as caught:
        program.find([broken, old])
    assert "pip install" in caught.value.hint


def test_the_real_program_is_found():
    assert (program.version_of(program.find()) or (0,)) >= program.OLDEST


FORBIDDEN = """
import asyncio, pathlib, sys
from uchide.errors import SandboxUnavailable
from uchide.protocols import SandboxSpec
from uchide.sandboxes import provider

async def main():
    try:
        async with provider("bwrap").open(SandboxSpec(tree=pathlib.Path(sys.argv[1]))):
            print("started")
    except SandboxUnavailable as error:
        print(error)

asyncio.run(main())
"""


def test_a_host_without_user_namespaces_is_told_the_command_to_run(tmp_path):
    """Real: a user namespace in which the kernel's own switch is set to zero."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare on this host")
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", sys.executable, "-c", FORBIDDEN, tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "this host forbids unprivileged user namespaces (max_user_namespaces is 0)" in done.stdout, done.stderr
    assert "sudo sysctl -w user.max_user_namespaces=15000" in done.stdout
    assert "started" not in done.stdout


def test_other_failures_to_start_are_not_taken_for_a_ban():
    assert program.start_failure("bwrap: Can't find source path /root/x: Permission denied") is None
    blocked = program.start_failure("bwrap: No permissions to create new namespace, likely because ...")
    assert blocked is not None
    assert blocked.hint


def test_machines_without_a_filter_are_refused():
    assert seccomp.filter_program("x86_64") != seccomp.filter_program("aarch64")
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        seccomp.filter_program("riscv64")


# --- doctor ----------------------------------------------------------------------------------------------------------
def test_the_doctor_finds_this_host_well(tmp_path):
    found = {check.name: check for check in doctor.checks(cache=tmp_path / "a" / "b", artifacts=tmp_path)}
    assert list(found) == ["python", "git", "tar", "bwrap", "sandbox", "memory", "cache", "artifacts"]
    assert found["sandbox"].ok, found["sandbox"]
    assert found["bwrap"].ok
    assert not (tmp_path / "a").exists()


def test_the_doctor_names_what_is_missing_and_how_to_mend_it(tmp_path, monkeypatch):
    missing = doctor.check_program("git", "git", ["no-such-git", "--version"])
    assert (missing.ok, missing.fix) == (False, "sudo apt-get install git")
    monkeypatch.setattr(program, "candidates", list)
    assert "pip install" in doctor.check_bwrap().fix
    assert "pip install" in asyncio.run(doctor.check_sandbox()).fix
    monkeypatch.setitem(doctor.NEEDED_MB, "cache", 10**9)
    assert not doctor.check_disk("cache", tmp_path).ok


def test_the_doctors_probe_notices_a_host_without_walls(tmp_path):
    """The probe run outside any sandbox must complain, or its silence inside would mean nothing."""
    argv = [sys.executable, "-I", "-S", "-c", doctor.PROBE, str(tmp_path), str(tmp_path)]
    (tmp_path / ".config").mkdir()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "a file of the host is visible" in done.stdout
    assert "home is visible" in done.stdout
    assert "all system calls are allowed" in done.stdout


# --- building --------------------------------------------------------------------------------------------------------
class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from the host")

    def log_message(self, *args):
        pass


async def test_a_build_reaches_the_network_and_keeps_only_its_folder(tmp_path):
    out, data = tmp_path / "out", tmp_path / "data"
    out.mkdir()
    data.mkdir()
    (data / "in").write_text("in")
    server = HTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = f"""
import os, socket, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{server.server_port}/").read().decode(), open("/data/in").read())
open("/out/result", "w").write("built")
for path in ("/data/x", "/usr/x", "/x", "/out/../y"):
    try:
        open(path, "w")
        print("WROTE", path)
    except OSError:
        pass
print(os.path.exists({str(tmp_path)!r}), os.getcwd(), os.environ.get("EXTRA"), "UCHIDE_CANARY" in os.environ)
"""
    os.environ["UCHIDE_CANARY"] = "1"
    try:
        status, text = await build.build_command(
            [PYTHON, "-c", script], writable={"/out": out}, readable={"/data": data}, env={"EXTRA": "e"}, timeout_s=60
        )
    finally:
        del os.environ["UCHIDE_CANARY"]
        server.shutdown()
        server.server_close()
    assert (status, text) == (0, "hello from the host in\nFalse /tmp e False\n")
    assert (out / "result").read_text() == "built"
    assert (out / "result").stat().st_uid == os.getuid()


async def test_a_build_that_takes_too_long_says_so(tmp_path):
    status, text = await build.build_command(
        ["sh", "-c", "echo begun; sleep 100"], writable={}, readable={}, env={}, timeout_s=0.5
    )
    assert status == -1
    assert text.startswith("begun\n\n[killed: timeout after ")
    with pytest.raises(ConfigError, match="does not exist"):
        await build.build_command(["true"], writable={}, readable={"/x": tmp_path / "x"}, env={}, timeout_s=5)


async def test_pip_inside_is_told_where_packages_come_from_and_no_secrets(tmp_path, monkeypatch):
    wheels, user = tmp_path / "wheels", tmp_path / "config" / "pip"
    wheels.mkdir()
    (wheels / "here.txt").write_text("wheel")
    user.mkdir(parents=True)
    (user / "pip.conf").write_text(
        f"[global]\nfind-links = {wheels}\ntimeout = 7\nuser = true\n[freeze]\ntimeout = 10\n[list]\nformat = columns\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PIP_RETRIES", "3")
    monkeypatch.setenv("PIP_TARGET", "/nowhere")
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    done = await build.run_with_network(
        ["sh", "-c", f"cat /etc/pip.conf {wheels}/here.txt; env"], writable={}, readable={}, env={}, timeout_s=60
    )
    said = done.output.decode()
    assert f"find-links = {wheels}\n" in said
    assert "timeout = 7\n" in said
    assert "wheel" in said
    assert "PIP_RETRIES=3" in said
    for absent in ("PIP_TARGET", "user = true", "format", "timeout = 10"):
        assert absent not in said


def test_local_places_of_packages_are_recognised(tmp_path):
    (tmp_path / "idx" / "simple").mkdir(parents=True)
    values = [f"{tmp_path}/none {tmp_path}", f"file://{tmp_path}/idx/simple", "https://example.org/simple", "/", "/usr"]
    assert set(build.local_paths(values)) == {tmp_path, tmp_path / "idx"}


# --- layout ----------------------------------------------------------------------------------------------------------
def test_writable_folders_together_hold_the_disk_limit():
    args = layout.writable(Limits(disk_mb=160))
    sizes = {args[at + 3]: int(args[at + 1]) >> 20 for at, flag in enumerate(args) if flag == "--size"}
    assert sizes == {"/testbed": 100, "/tmp": 40, "/share": 10, "/dev/shm": 10}
