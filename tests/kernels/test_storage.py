"""Tests of checkpoints and random reads: real files and fio, corrupt contents, and what is left after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from accelbench.kernels.storage import cpu_checkpoint, cpu_random_read, scratch_file
from accelbench.kernels.storage.scratch_file import CHECKSUM, FOLDER, PAGE, ScratchFile
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.records.point import Point
from tests.conftest import command, environment
from tests.fixtures.processes import living, marked, wait_for

MIB = 4


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Current folder on a disk, which is measured; empty also afterwards. /tmp may be in memory."""
    with TemporaryDirectory(prefix="accelbench-", dir="/var/tmp") as name:
        monkeypatch.setenv(FOLDER, name)
        monkeypatch.chdir(name)
        yield Path(name)
        assert not [*Path(name).iterdir()]
        monkeypatch.undo()


def checkpoint(op: str, io: str) -> Task:
    return cpu_checkpoint.prepare(Point("checkpoint", "cpu", {"op": op, "io": io, "mib": MIB}))


@pytest.mark.needs("fio")
@pytest.mark.parametrize(("op", "io"), [("write", "direct"), ("write", "buffered"), ("read", "direct")])
def test_a_checkpoint_is_written_and_read(op: str, io: str, folder: Path) -> None:
    task = checkpoint(op, io)
    assert task.sample
    assert task.sample(2) > 0
    outcome = task.verify()
    assert outcome.passed, outcome
    assert (outcome.found, task.work.bytes) == ("4 correct blocks", MIB << 20)
    assert ("bypassed" in outcome.method) == (io == "direct")


@pytest.mark.needs("fio")
@pytest.mark.parametrize("depth", [1, 32])
def test_small_blocks_are_read_at_random(depth: int, folder: Path) -> None:
    task = cpu_random_read.prepare(Point("random-read", "cpu", {"depth": depth, "kib": 4, "mib": MIB}))
    assert task.sample
    assert task.metrics
    seconds = task.sample(30)
    metrics = task.metrics(seconds)
    assert 0 < metrics["latency"].value <= metrics["latency_p99"].value
    assert metrics["bandwidth"].value == pytest.approx(64 * 4096 / seconds)
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.needs("fio")
@pytest.mark.parametrize("block", [4096, 1 << 20])
def test_a_wrong_byte_in_the_file_fails(block: int, folder: Path) -> None:
    file = ScratchFile(MIB << 20, direct=False)
    file.write(**CHECKSUM, verify_interval=block, do_verify=0)
    assert file.check(block).passed
    place = (1 << 20) + block // 2
    (byte,) = os.pread(file.fileno(), 1, place)
    os.pwrite(file.fileno(), bytes([byte ^ 1]), place)
    assert not file.check(block).passed


@pytest.mark.needs("fio")
def test_blocks_at_the_wrong_place_or_never_written_fail(folder: Path) -> None:
    file = ScratchFile(MIB << 20, direct=False)
    os.ftruncate(file.fileno(), MIB << 20)
    assert not file.check(PAGE).passed
    file.write(**CHECKSUM, verify_interval=PAGE, do_verify=0)
    os.pwrite(file.fileno(), os.pread(file.fileno(), PAGE, 0), PAGE)
    assert not file.check(PAGE).passed


@pytest.mark.parametrize("missing", ["fio", "space", "folder", "disk", "direct"])
def test_what_cannot_be_measured_is_skipped_with_the_reason(
    missing: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_file.shutil, "which", lambda name: None if missing == "fio" else f"/usr/bin/{name}")
    reason = {"fio": "apt install fio", "space": "of storage", "direct": "O_DIRECT"}.get(missing, FOLDER)
    if missing == "space":
        monkeypatch.setattr(scratch_file.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    if missing == "folder":
        monkeypatch.setenv(FOLDER, str(folder / "missing"))
    if missing == "disk":
        monkeypatch.setattr(scratch_file, "file_system_of", lambda folder: "tmpfs")
    if missing == "direct":
        monkeypatch.setattr(ScratchFile, "_bypasses_cache", lambda file: False)
    with pytest.raises(Skip, match=reason):
        checkpoint("write", "direct")


def test_the_file_system_is_the_innermost_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [("/", "overlay"), ("/data", "nfs"), ("/data/fast", "ext4"), ("/data/fast", "xfs"), ("/data2", "zfs")]
    parts = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in mounts]
    monkeypatch.setattr(scratch_file.psutil, "disk_partitions", lambda all: parts)
    found = [scratch_file.file_system_of(Path(place)) for place in ("/home", "/data/a", "/data/fast/a", "/data2")]
    assert found == ["overlay", "nfs", "xfs", "zfs"]


@pytest.mark.slow
@pytest.mark.needs("fio")
def test_a_killed_run_leaves_no_file_and_no_fio(folder: Path, tmp_path: Path) -> None:
    params = [word for value in ("op=write", "io=direct", "mib=256") for word in ("--param", value)]
    with subprocess.Popen(
        command("run", "checkpoint", "--device", "cpu", "--no-ceilings", *params, "--out", tmp_path / "run"),
        env=environment(**marked(tmp_path), **{FOLDER: str(folder)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_for(lambda: any("fio" in each.name() for each in living(tmp_path)))
        assert not [*folder.iterdir()]
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: not living(tmp_path))
