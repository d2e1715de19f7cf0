"""A real `bwrap` sandbox from the side of its users: commands, files, trees, limits of output and time, endings."""

import asyncio
import os
import signal
import sys
import tarfile
import time
import venv
from pathlib import Path

import pytest
import zstandard

from uchide.errors import ConfigError, SandboxError, StoreError
from uchide.protocols import Command, Limits, Mount, SandboxSpec
from uchide.sandboxes import layout, provider

pytestmark = pytest.mark.sandbox
PYTHON = str(layout.guest_python()[0])


def sh(script: str, **options) -> Command:
    return Command(("sh", "-c", script), **options)


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "hello.txt").write_text("hello\n")
    return SandboxSpec(tree=tree)


@pytest.fixture
async def sandbox(spec):
    async with provider("bwrap").open(spec) as running:
        yield running


async def test_output_and_errors_arrive_together_in_order(sandbox):
    done = await sandbox.run(sh("echo one; echo two >&2; cat hello.txt; exit 7"))
    assert (done.returncode, done.output, done.killed, done.omitted) == (7, b"one\ntwo\nhello\n", "", 0)


async def test_the_environment_is_fixed_and_may_be_added_to(spec, monkeypatch):
    monkeypatch.setenv("UCHIDE_SECRET_CANARY", "1")
    async with provider("bwrap").open(SandboxSpec(tree=spec.tree, env={"A": "1", "B": "1"})) as sandbox:
        done = await sandbox.run(Command(("env",), env={"B": "2"}))
    got = dict(line.split("=", 1) for line in done.output.decode().splitlines())
    assert got == layout.fixed_env() | {"A": "1", "B": "2"}
    assert got["PATH"] == "/env/bin:/usr/bin:/bin"
    assert got["LC_ALL"] == "C.UTF-8"


@pytest.mark.parametrize(
    ("argv", "returncode", "said"),
    [
        (("no-such-program",), 127, b"no-such-program: No such file or directory\n"),
        (("true\0",), 127, b"embedded null"),
        (("sh", "-c", "kill -9 $$"), -9, b""),
        (("sh", "-c", "exit 255"), 255, b""),
        (("printf", "\\377\\342\n"), 0, b"\xff\xe2\n"),
        (("echo", os.fsdecode(b"\xff")), 0, b"\xff\n"),
    ],
)
async def test_every_ending_is_a_result(sandbox, argv, returncode, said):
    done = await sandbox.run(Command(argv))
    assert done.returncode == returncode
    assert said in done.output


async def test_a_missing_working_directory_is_a_result(sandbox):
    done = await sandbox.run(Command(("true",), cwd="/nowhere"))
    assert (done.returncode, done.output) == (127, b"/nowhere: No such file or directory\n")


async def test_input_is_delivered_whole_and_need_not_be_read(sandbox):
    data = os.urandom(3_000_000)
    done = await sandbox.run(Command(("cat",), stdin=data, output_limit=4_000_000))
    assert done.output == data
    assert (await sandbox.run(Command(("true",), stdin=data))).returncode == 0


async def test_long_output_keeps_its_first_and_last_bytes(sandbox):
    done = await sandbox.run(sh("seq 1 200000", output_limit=1001))
    whole = "".join(f"{n}\n" for n in range(1, 200001)).encode()
    assert done.output == whole[:501] + whole[-500:]
    assert done.omitted == len(whole) - 1001


@pytest.mark.parametrize(
    "runaway", ["sleep 1000 & sleep 1000", "setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 1000"]
)
async def test_a_timeout_kills_the_whole_tree(sandbox, runaway):
    start = time.monotonic()
    done = await sandbox.run(sh(f"echo begun; {runaway}", timeout_s=0.5))
    assert (done.returncode, done.killed, done.output) == (None, "timeout", b"begun\n")
    assert time.monotonic() - start < 5
    left = await sandbox.run(sh("ls /proc | grep -c '^[0-9]*$'"))
    assert int(left.output) <= 4, "the guest and the counting commands themselves"


async def test_a_background_process_outlives_its_command_and_holds_nothing_up(sandbox):
    start = time.monotonic()
    script = "while True:\n    print('x' * 100, flush=True)\n    open('/tmp/alive', 'ab').write(b'x')"
    await sandbox.run(Command(("sh", "-c", f'{PYTHON} -c "$0" & echo started', script)))
    assert time.monotonic() - start < 5
    sizes = []
    for _ in range(100):
        await asyncio.sleep(0.1)
        sizes.append(int((await sandbox.run(sh("stat -c %s /tmp/alive || echo 0"))).output.split()[-1]))
        if sizes[-1] > 2000:
            break
    assert sizes[-1] > 2000, "it still runs and prints although its command has ended"


async def test_a_server_started_by_one_command_answers_another(sandbox):
    await sandbox.run(sh(f"{PYTHON} -m http.server 8123 --bind 127.0.0.1 &"))
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/hello.txt').read())"
    for _ in range(50):
        done = await sandbox.run(Command((PYTHON, "-c", ask)))
        if done.returncode == 0:
            break
        await asyncio.sleep(0.1)
    assert done.output == b"b'hello\\n'\n"


async def test_files_are_written_and_read(sandbox):
    await sandbox.write("/share/a/b.sh", b"#!/bin/sh\necho ran\n", executable=True)
    assert (await sandbox.run(sh("/share/a/b.sh"))).output == b"ran\n"
    await sandbox.write("/share/a/b.sh", b"plain")
    assert await sandbox.read("/share/a/b.sh") == b"plain"
    assert await sandbox.read("hello.txt") == b"hello\n"
    await sandbox.write("big", bytes(20_000_000))
    assert await sandbox.read("big", limit=20_000_000) == bytes(20_000_000)
    for missing in ("/share/none", "hello.txt/none"):
        with pytest.raises(FileNotFoundError):
            await sandbox.read(missing)


async def test_traps_laid_for_reading_and_writing_hang_nothing(sandbox):
    await sandbox.run(sh("mkfifo pipe; ln -s pipe link; ln -s /tools/x out; mkdir folder; ln -s loop loop"))
    for path, reason in [("pipe", "not a regular file"), ("folder", "not a regular file"), ("loop", "symbolic links")]:
        with pytest.raises(SandboxError, match=reason):
            await sandbox.read(path)
    with pytest.raises(SandboxError, match="larger than 3 bytes"):
        await sandbox.read("hello.txt", limit=3)
    with pytest.raises(SandboxError, match="/usr/x"):
        await sandbox.write("/usr/x", b"")
    for path in ("pipe", "link", "out"):
        await sandbox.write(path, b"new")
        assert await sandbox.read(path) == b"new"


async def test_cpu_time_of_the_dead_and_the_living_is_counted(sandbox):
    before = await sandbox.cpu_seconds()
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    done = await sandbox.run(Command((PYTHON, "-c", burn)))
    assert 0.4 < done.cpu_s < 2
    await sandbox.run(Command(("sh", "-c", f'{PYTHON} -c "$0" &', burn + "\ntime.sleep(60)")))
    await asyncio.sleep(2)
    assert 0.9 < await sandbox.cpu_seconds() - before < 4


async def test_an_archive_becomes_the_tree(tmp_path):
    tree, archive = tmp_path / "t", tmp_path / "t.tar.zst"
    (tree / "pkg").mkdir(parents=True)
    (tree / "pkg" / "run").write_bytes(b"#!/bin/sh\necho in $(pwd)\n")
    (tree / "pkg" / "run").chmod(0o755)
    (tree / "link").symlink_to("pkg/run")
    Path(os.fsdecode(os.fsencode(tree) + b"/caf\xe9 \xe2\x80\xa8")).write_bytes(b"\r\n")
    plain = tmp_path / "t.tar"
    with tarfile.open(plain, "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(tree, arcname=".")
    archive.write_bytes(zstandard.compress(plain.read_bytes()))
    async with provider("bwrap").open(SandboxSpec(tree=archive)) as sandbox:
        assert (await sandbox.run(sh("./link; ls -A"))).output == b"in /testbed\ncaf\xe9 \xe2\x80\xa8\nlink\npkg\n"
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises((StoreError, SandboxError), match=r"t\.tar\.zst"):
        async with provider("bwrap").open(SandboxSpec(tree=archive)):
            pass
    archive.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(StoreError, match="not a readable archive"):
        async with provider("bwrap").open(SandboxSpec(tree=archive)):
            pass


async def test_a_tree_too_large_for_the_disk_is_refused_at_the_start(tmp_path):
    (tmp_path / "big").write_bytes(bytes(16 << 20))
    with pytest.raises(SandboxError, match=r"(?s)cannot copy .*disk_mb"):
        async with provider("bwrap").open(SandboxSpec(tree=tmp_path, limits=Limits(disk_mb=16))):
            pass


async def test_the_environments_python_comes_first(spec, tmp_path):
    root = tmp_path / "env"
    venv.create(root, symlinks=True)
    (root / "bin" / "python").unlink()
    (root / "bin" / "python").symlink_to(PYTHON)
    home = layout.guest_python()[1]
    async with provider("bwrap").open(SandboxSpec(tree=spec.tree, environment=root, python_home=home)) as sandbox:
        done = await sandbox.run(
            Command(("python", "-c", "import sys; print(sys.prefix, sys.path[-1], flush=True); import pytest"))
        )
    assert done.output.startswith(b"/env /env/lib/python3")
    assert b"No module named 'pytest'" in done.output, "packages of the base interpreter stay hidden"


async def test_tools_and_mounts_are_shown_and_unknown_ones_refused(spec, tmp_path):
    (tmp_path / "extra.txt").write_text("extra")
    shown = SandboxSpec(tree=spec.tree, tools=("run_tests.py",), mounts=(Mount(tmp_path / "extra.txt", "/data/x"),))
    async with provider("bwrap").open(shown) as sandbox:
        assert (await sandbox.run(sh("ls $UCHIDE_TOOLS; cat /data/x"))).output == b"run_tests.py\nextra"
    for wrong in (
        SandboxSpec(tree=spec.tree, tools=("no_such.py",)),
        SandboxSpec(tree=spec.tree, tools=("../errors.py",)),
        SandboxSpec(tree=spec.tree, mounts=(Mount(tmp_path / "none", "/data"),)),
    ):
        with pytest.raises(ConfigError):
            async with provider("bwrap").open(wrong):
                pass
    with pytest.raises(StoreError, match=r"nothing is no tree"):
        async with provider("bwrap").open(SandboxSpec(tree=tmp_path / "nothing")):
            pass
    with pytest.raises(ConfigError, match="known: bwrap"):
        provider("docker")


def processes_with(word: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


async def wait_until_gone(word: str) -> list[int]:
    for _ in range(100):
        if not processes_with(word):
            return []
        await asyncio.sleep(0.05)
    return processes_with(word)


async def test_leaving_the_context_ends_every_process(spec):
    word = f"3600.{os.getpid()}1"
    async with provider("bwrap").open(spec) as sandbox:
        await sandbox.run(sh(f"setsid nohup sleep {word} >/dev/null 2>&1 &"))
        for _ in range(100):
            if processes_with(word):
                break
            await asyncio.sleep(0.02)
        assert processes_with(word)
    assert processes_with(word) == []
    with pytest.raises(SandboxError, match="closed"):
        await sandbox.run(sh("true"))


async def test_a_killed_controller_takes_its_sandbox_along(spec, tmp_path):
    word = f"3600.{os.getpid()}2"
    program = tmp_path / "controller.py"
    program.write_text(f"""
import asyncio, pathlib
from uchide.protocols import Command, SandboxSpec
from uchide.sandboxes import provider

async def main():
    async with provider("bwrap").open(SandboxSpec(tree=pathlib.Path({str(spec.tree)!r}))) as sandbox:
        await sandbox.run(Command(("sh", "-c", "sleep {word} & setsid sleep {word}")))

asyncio.run(main())
""")
    controller = await asyncio.create_subprocess_exec(sys.executable, program)
    try:
        for _ in range(200):
            if len(processes_with(word)) >= 3:
                break
            await asyncio.sleep(0.05)
        assert len(processes_with(word)) >= 3
    finally:
        controller.send_signal(signal.SIGKILL)
        await controller.wait()
    assert await wait_until_gone(word) == []


async def test_a_sandbox_that_dies_is_an_error_of_the_infrastructure(sandbox):
    word = f"3600.{os.getpid()}3"
    running = asyncio.create_task(sandbox.run(sh(f"sleep {word}; true")))
    for _ in range(100):
        if processes_with(word):
            break
        await asyncio.sleep(0.05)
    mine = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()[-1])
    os.kill(mine, signal.SIGKILL)
    with pytest.raises(SandboxError, match="died"):
        await running
    with pytest.raises(SandboxError, match="died"):
        await sandbox.run(sh("true"))
    assert await wait_until_gone(word) == []


async def test_an_interrupted_request_ends_the_sandbox(sandbox):
    word = f"3600.{os.getpid()}4"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sandbox.run(sh(f"sleep {word}; true")), 0.5)
    with pytest.raises(SandboxError, match="interrupted"):
        await sandbox.run(sh("true"))
    assert await wait_until_gone(word) == []


async def test_requests_made_at_once_are_served_in_turn(sandbox):
    done = await asyncio.gather(*(sandbox.run(sh(f"sleep 0.0{n}; echo {n}")) for n in range(5)))
    assert [result.output for result in done] == [f"{n}\n".encode() for n in range(5)]
