"""The store: rows survive kills, one writer at a time, manifests last, every byte checked."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from uchide.errors import LeaseError, StoreError
from uchide.records import Excluded, PickGraded, Record, Verdict
from uchide.store import Artifact, Identity, instance_set, open_part, read_rows, verify
from uchide.store.lease import Lease, holder, lease

MODELS = {"rows": Excluded, "other": Verdict}


def identity(part="x.a", key="0" * 12):
    return Identity(stage="bench", part=part, key=key, calm=key, instances=instance_set(("a",)), n_instances=1)


def row(n, reason="because"):
    return Excluded(instance_id=f"i{n}", reason=reason)


def make(folder, rows=3, part="x.a", reason="because", order=None):
    ident = identity(part)
    with open_part(folder / ident.name, ident, MODELS, code="c0", volatile_files=("logs/*",)) as out:
        for n in order or range(rows):
            out.append(row(n, reason), id=f"i{n}")
        out.file("trees/t.bin").write_bytes(b"tree")
        out.file("logs/l.txt").write_text(str(os.urandom(4)))
        out.finish()
    return Artifact(folder / ident.name)


def parent(folder, *kids):
    ident = identity("")
    with open_part(folder / ident.name, ident) as out:
        out.finish(children=kids, inputs=kids)
    return Artifact(folder / ident.name)


def test_rows_and_side_files_come_back(tmp_path):
    art = make(tmp_path)
    assert [r.instance_id for r in art.rows(Excluded)] == ["i0", "i1", "i2"]
    assert art.file("trees/t.bin").read_bytes() == b"tree"
    assert art.manifest.rows["rows"].count == 3
    assert art.manifest.rows["other"].count == 0
    assert art.run.codes == {"x": ("c0",)}
    assert not (art.path / "lease.json").exists()
    with pytest.raises(StoreError, match=r"trees/u\.bin is missing"):
        art.file("trees/u.bin")


def test_content_digest_ignores_order_times_and_volatile_files(tmp_path):
    one, two = make(tmp_path / "1"), make(tmp_path / "2", order=[2, 0, 1])
    assert one.manifest.content_digest == two.manifest.content_digest
    assert (one.path / "manifest.json").read_bytes() == (two.path / "manifest.json").read_bytes()
    assert make(tmp_path / "3", reason="other").manifest.content_digest != one.manifest.content_digest


def test_resume_keeps_rows_and_replaces_only_those_of_earlier_sessions(tmp_path):
    ident, path = identity(), tmp_path / identity().name
    with open_part(path, ident, MODELS, code="c1") as out:
        out.append(row(0, "infra"), id="i0")
        with pytest.raises(StoreError, match="twice"):
            out.append(row(0), id="i0")
    with open_part(path, ident, MODELS, code="c2") as out:
        assert out.done() == {"i0"}
        out.append(row(0, "fine"), id="i0")
        out.append(row(1), id="i1")
        out.finish()
    art = Artifact(path)
    assert {r.instance_id: r.reason for r in art.rows(Excluded)} == {"i0": "fine", "i1": "because"}
    assert art.run.codes == {"x": ("c1", "c2")}
    assert len(art.run.sessions) == 2
    with pytest.raises(StoreError, match="finished already"), open_part(path, ident, MODELS):
        pass


@pytest.mark.parametrize("tail", [b'{"id": "i9", "row": {"inst', b"\0\0\0\0", b'{"id": "i9"}\n', b"\xff\xfe\n"])
def test_half_written_last_line_is_cut_with_a_notice(tmp_path, tail):
    ident, path = identity(), tmp_path / identity().name
    with open_part(path, ident, MODELS) as out:
        out.append(row(0), id="i0")
    with (path / "rows.jsonl").open("ab") as file:
        file.write(tail)
    notices = []
    with open_part(path, ident, MODELS, notice=notices.append) as out:
        assert out.done() == {"i0"}
        out.append(row(1), id="i1")
        out.finish()
    assert len(notices) == 1
    assert "half-written" in notices[0]
    assert [r.instance_id for r in Artifact(path).rows(Excluded)] == ["i0", "i1"]


def test_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path):
    ident, path = identity(), tmp_path / identity().name
    with open_part(path, ident, MODELS) as out:
        out.append(row(0), id="i0")
        out.append(row(1), id="i1")
    data = (path / "rows.jsonl").read_bytes()
    (path / "rows.jsonl").write_bytes(b"x" + data)
    with pytest.raises(StoreError, match=r"rows\.jsonl:1"), open_part(path, ident, MODELS):
        pass


def test_row_of_another_version_is_an_error_that_names_it(tmp_path):
    ident, path = identity(), tmp_path / identity().name
    path.mkdir()
    (path / "rows.jsonl").write_text('{"id":"i0","row":{"instance_id":"i0","why":"x"}}\n')
    with pytest.raises(StoreError, match="row 'i0'"), open_part(path, ident, MODELS) as out:
        out.finish()
    with pytest.raises(StoreError, match="row 'i0'"):
        list(read_rows(path / "rows.jsonl", Excluded))


def test_line_separators_in_text_do_not_split_rows(tmp_path):
    text = "a\u2028b\u2029c\x85d\r\ne\x0bf\udc80"
    art = make(tmp_path, rows=2, reason=text)
    assert [r.reason for r in art.rows(Excluded)] == [text, text]
    assert verify(art) == 5


def test_full_disk_is_one_clear_error_and_loses_nothing(tmp_path):
    ident, path = identity(), tmp_path / identity().name
    with open_part(path, ident, MODELS) as out:
        out.append(row(0), id="i0")
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, old[1]))
        try:
            with pytest.raises(StoreError, match="cannot be written"):
                out.append(row(1, "x" * 5000), id="i1")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
            signal.signal(signal.SIGXFSZ, previous)
        out.append(row(2), id="i2")
        out.finish()
    assert [r.instance_id for r in Artifact(path).rows(Excluded)] == ["i0", "i2"]


def test_wrong_record_and_names_outside_the_part_are_refused(tmp_path):
    ident = identity()
    with open_part(tmp_path / ident.name, ident, MODELS) as out:
        with pytest.raises(StoreError, match="holds Excluded, not PickGraded"):
            out.append(PickGraded.model_construct(), id="x")
        for rel in ("../x", "manifest.json", "/etc/x"):
            with pytest.raises(StoreError, match="not a name"):
                out.file(rel)


# --- leases ----------------------------------------------------------------------------------------------------------
def test_second_writer_is_refused_by_name(tmp_path):
    ident = identity()
    with (
        open_part(tmp_path / ident.name, ident, MODELS),
        pytest.raises(LeaseError, match=f"{ident.name} is being written by process {os.getpid()}"),
        open_part(tmp_path / ident.name, ident, MODELS, wait_s=0),
    ):
        pass


CHILD = """
import sys, time
from pathlib import Path
from uchide.store.lease import lease
with lease(Path(sys.argv[1]), "it"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_lease_of_a_killed_process_is_taken_over(tmp_path):
    path = tmp_path / "lease.json"
    child = subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(LeaseError, match=f"process {child.pid}"), lease(path, "it"):
        pass
    child.kill()  # not waited for: a zombie is no writer
    with lease(path, "it", wait_s=2) as held:
        assert holder(path)["nonce"] == held.nonce
    child.wait()
    assert not path.exists()


@pytest.mark.parametrize(("age", "free"), [(10, False), (3600, True)])
def test_lease_of_another_host_is_judged_by_its_heartbeat(tmp_path, age, free):
    path = tmp_path / "lease.json"
    path.write_text(json.dumps({"host": "elsewhere", "pid": 1, "heartbeat": time.time() - age, "nonce": "n"}))
    if free:
        with lease(path, "it"):
            pass
    else:
        with pytest.raises(LeaseError, match="on elsewhere"), lease(path, "it"):
            pass


RACE = """
import os, sys, time
from pathlib import Path
from socket import gethostname
from uchide.errors import LeaseError
from uchide.store.lease import lease
path, log = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(40):
    try:
        with lease(path, "it"):
            with log.open("a", buffering=1) as f:
                f.write("in\\n"); time.sleep(0.001); f.write("out\\n")
        dead = path.with_name(f"dead{os.getpid()}")
        dead.write_text('{"host": "%s", "pid": 1, "start": "never", "nonce": "%s"}' % (gethostname(), time.time()))
        os.link(dead, path)
    except (LeaseError, FileExistsError):
        time.sleep(0.001)
"""


def test_never_two_holders_at_once_even_when_all_take_over_dead_leases(tmp_path):
    path, log = tmp_path / "l" / "lease.json", tmp_path / "log"
    Lease(path, "it")
    many = [subprocess.Popen([sys.executable, "-c", RACE, path, log]) for _ in range(4)]
    assert [child.wait(30) for child in many] == [0] * 4
    words = log.read_text().split()
    assert len(words) > 20
    assert words == ["in", "out"] * (len(words) // 2)


# --- verify ----------------------------------------------------------------------------------------------------------
def test_verify_reads_children_too(tmp_path):
    kids = [make(tmp_path, part=f"x.{n}", reason=n) for n in "ab"]
    top = parent(tmp_path, *kids)
    assert list(top.children()) == ["x.a", "x.b"]
    assert top.run.codes == {"x": ("c0",)}
    assert verify(top) == 1 + 2 * 5


FLIPS = [
    "rows.jsonl",
    "trees/t.bin",
    "logs/l.txt",
    "manifest.json",
]


@pytest.mark.parametrize("rel", FLIPS)
def test_every_flipped_byte_is_found_and_named(tmp_path, rel):
    kid = make(tmp_path)
    top = parent(tmp_path, kid)
    path = kid.path / rel
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), max(1, len(data) // 9)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match=r"rows\.jsonl|t\.bin|l\.txt|manifest\.json"):
            verify(Artifact(top.path))
    path.write_bytes(data)
    assert verify(Artifact(top.path))


def test_missing_manifest_child_and_file_are_named(tmp_path):
    kid = make(tmp_path)
    top = parent(tmp_path, kid)
    (kid.path / "trees/t.bin").unlink()
    with pytest.raises(StoreError, match=r"t\.bin: content is nothing"):
        verify(top)
    (kid.path / "manifest.json").unlink()
    with pytest.raises(StoreError, match=f"{kid.name} holds no manifest"):
        verify(Artifact(top.path))
    with pytest.raises(StoreError, match="holds no manifest"):
        Artifact(tmp_path / "nothing")


def row_count(path):
    return (path / "rows.jsonl").read_bytes().count(b"\n") if (path / "rows.jsonl").exists() else 0


def test_kill_nine_at_any_moment_leaves_whole_rows(tmp_path):
    """A writer killed again and again ends with each row once and the digest of an undisturbed one."""
    script = tmp_path / "writer.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from test_store import MODELS, identity, row
        from uchide.store import open_part
        with open_part(Path(sys.argv[1]) / identity().name, identity(), MODELS, code="c0") as out:
            for n in range(30):
                if f"i{n}" not in out.done():
                    out.append(row(n), id=f"i{n}")
                    time.sleep(0.005)
            out.finish()
        """)
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    path = tmp_path / identity().name
    for tries in range(40):
        before = row_count(path)
        child = subprocess.Popen([sys.executable, script, tmp_path], env=env)
        while child.poll() is None and row_count(path) < before + 3 + tries % 3:
            time.sleep(0.001)
        child.kill()
        child.wait()
        if (path / "manifest.json").exists():
            break
    assert tries > 0
    art = Artifact(tmp_path / identity().name)
    with open_part(tmp_path / "calm" / identity().name, identity(), MODELS) as out:
        for n in range(30):
            out.append(row(n), id=f"i{n}")
        assert out.finish() == art.manifest
    assert len((art.path / "rows.jsonl").read_bytes().splitlines()) == 30


def test_records_outside_uchide_records_are_allowed(tmp_path):
    class Mine(Record):
        n: int

    ident = identity()
    with open_part(tmp_path / ident.name, ident, {"rows": Mine}) as out:
        out.append(Mine(n=1), id="1")
        out.finish()
    assert verify(Artifact(tmp_path / ident.name)) == 2
