"""Tests of anonymous bundles: no identifying data of user, host or place."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from accelbench.__main__ import main
from accelbench.execution.store import EarlierCeilings, Label, RunStore
from accelbench.pack.anonymous import EMPTIED, HIDDEN, write_anonymous_pack
from accelbench.pack.read import open_packed
from accelbench.profiling.machine.identity import Identity
from tests.conftest import Run, command, environment
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_profiles import profile
from tests.fixtures.report_records import record, training, unmeasured
from tests.fixtures.report_runs import make_run

USER, HOST, PLACE, PROJECT = "zaphod99", "heart-of-gold", "magrathea", "secretproject"
WORDS = (USER, HOST, PLACE, PROJECT)
TELLS = '''
"""A benchmark that fails with identifying text in its messages."""
import getpass, os, pathlib, socket
from accelbench import Task, benchmark

@benchmark("tells", devices=("cpu",), axes={}, metric="time")
def tells(point):
    """Fail."""
    print("config of", getpass.getuser(), "is", pathlib.Path.home() / ".config", "on", socket.gethostname(), flush=True)
    raise FileNotFoundError(f"{pathlib.Path.cwd()}/data is not on {socket.gethostname()}, {getpass.getuser()}@10.1.2.3")
'''


def named(*arguments: str | Path) -> list[str]:
    """Return the command line that runs the command under the host name HOST."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh", *command(*arguments)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(PLACE) / USER


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    """Run with a traced and profiled training workload and a failing point, with identifiable user and host names."""
    project = home / PROJECT
    project.mkdir(parents=True)
    (home / "own").mkdir()
    (home / "own" / "tells.py").write_text(TELLS)
    own = f"{home / 'own'}{os.pathsep}{environment()['ACCELBENCH_PATH']}"
    there = environment(HOME=str(home), USER=USER, LOGNAME=USER, HOSTNAME=HOST, ACCELBENCH_PATH=own, OMP_PLACES=USER)
    out = project / f"run-of-{USER}"
    words = ("run", "learn", "tells", "--backend", "jax", "--device", "cpu", "--no-ceilings", "--out", out)
    done = subprocess.run(
        named(*words, "--trace", "--host-profile"), cwd=project, env=there, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 1, done.stderr
    packed = subprocess.run(
        named("pack", out, "--anonymous", "--out", home / "anonymous"),
        cwd=project,
        env=there,
        capture_output=True,
        text=True,
    )
    assert packed.returncode == 0, packed.stderr
    assert packed.stdout
    return out


def contents(pack: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a bundle, compressed files and tables with their contents as text."""
    with lzma.open(pack) as packed, tarfile.open(fileobj=packed) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
            if member.name.endswith(".gz"):
                data += gzip.decompress(data)
            if member.name.endswith(".parquet"):
                table = pq.read_table(io.BytesIO(data))
                data += f"{table.schema.metadata} {table.to_pydict()}".encode()
            yield member.name, data


@pytest.mark.slow
@pytest.mark.needs("host-names")
def test_no_file_of_an_anonymous_bundle_contains_host_user_or_place(run: Path, home: Path) -> None:
    files = dict(contents(home / "anonymous"))
    assert {name.rpartition("/")[2] for name in files} == {
        "run.json",
        "records.jsonl",
        "report.html",
        "records.csv",
        "records.parquet",
    }
    for name, data in files.items():
        for word in WORDS:
            assert word not in name
            assert word.encode() not in data.lower(), f"{name} names {word}"
    assert "FileNotFoundError" in RunStore(open_packed(home / "anonymous").path).records()[1].reason


@pytest.mark.slow
@pytest.mark.needs("host-names")
def test_stored_files_of_a_run_contain_neither_home_nor_host(run: Path, home: Path) -> None:
    stored = "".join((run / name).read_text() for name in ("run.json", "records.jsonl", "report.html", "records.csv"))
    assert str(home) not in stored
    assert HOST not in stored
    assert f"~/{PROJECT}/data is not on localhost" in stored
    assert '"OMP_PLACES": "…"' in stored
    assert all(word in (run / "logs" / "tells.log").read_text() for word in (HOST, USER, str(home)))


@pytest.mark.slow
@pytest.mark.needs("host-names")
def test_traces_contain_no_host_name(run: Path) -> None:
    traces = [path for path in (run / "traces").rglob("*") if path.is_file()]
    assert [path.name for path in traces if path.name.endswith(".xplane.pb")] == ["localhost.xplane.pb"]
    for path in (*traces, *(run / "host").rglob("*")):
        assert HOST not in path.name
        if path.is_file():
            data = path.read_bytes()
            data += gzip.decompress(data) if path.suffix == ".gz" else b""
            assert HOST.encode() not in data, path


MARVIN = Identity(frozenset({"/home/marvin"}), frozenset({"marvin"}), frozenset({"deepthought"}))


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    """Anonymous bundle of a run with much identifying data, opened."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = "/opt/lab/x.py and C:\\lab\\y at 10.0.0.7 and fe80::1ff:fe23:4567:890a"
    reason = f"marvin@deepthought: {places}, GPU 2b9a6f3e-12ab-34cd-56ef-0123456789ab"
    records = [
        *rich_records(),
        unmeasured("fma", "failed", reason, output_tail=["deepthought says", "42"]),
        record("copy", params={"file": "/home/marvin/lab/data.bin"}),
        training("cpu", "float64", 0.02, profile=profile()),
    ]
    run = make_run(
        tmp_path / "marvins-run",
        records,
        run_id="20260314-112653-marvins-lab-a1b2",
        suite="marvins-lab",
        command=[
            "accelbench",
            "run",
            "matmul",
            "--suite",
            "lab/marvins-lab.toml",
            "--out=/home/marvin/x",
            "--seed",
            "3",
        ],
        created=datetime(2026, 3, 14, 11, 26, 53, tzinfo=timezone(timedelta(hours=2))),
        label=Label(name="marvins best", note="for the lab's paper", tags=("lab",)),
        earlier_ceilings=EarlierCeilings(
            run_id="20260314-105500-marvins-lab-c3d4",
            created=datetime(2026, 3, 14, 10, 55, tzinfo=timezone(timedelta(hours=2))),
            records=[record("stream")],
        ),
    )
    (run.path / "logs").mkdir()
    (run.path / "logs" / "fma.log").write_text("deepthought")
    (pack,) = write_anonymous_pack([run], MARVIN, tmp_path / "pack")
    assert b"deepthought" not in pack.read_bytes()
    return open_packed(pack)


def test_an_anonymous_bundle_keeps_the_measurements(packed: RunStore) -> None:
    found = {str(record.point): record.timing for record in packed.records() if record.timing}
    for measured in rich_records():
        if measured.timing:
            assert found[str(measured.point)] == measured.timing


def test_names_paths_addresses_and_numbers_are_removed_from_all_texts(packed: RunStore) -> None:
    (failed,) = [found for found in packed.records() if found.point.benchmark == "fma"]
    assert failed.reason == "…: … and … at … and …, GPU …"
    assert failed.output_tail == []
    (copied,) = [found for found in packed.records() if found.point.benchmark == "copy"]
    assert copied.point.params == {"file": "…"}
    assert {path.name for path in packed.path.iterdir()} == {
        "run.json",
        "records.jsonl",
        "records.csv",
        "records.parquet",
        "report.html",
    }


def test_the_command_line_keeps_options_numbers_and_names_of_the_plan(packed: RunStore) -> None:
    info = packed.info()
    assert info.command == ["accelbench", "run", "matmul", "--suite", "…", "--out=…", "--seed", "3"]
    assert info.suite == "own"
    assert re.fullmatch("20260314-anonymous-[0-9a-f]{4}", info.run_id)


def test_name_note_tags_and_the_name_of_another_run_are_left_out(packed: RunStore) -> None:
    info = packed.info()
    assert info.label == Label()
    assert info.earlier_ceilings is not None
    assert re.fullmatch("anonymous-[0-9a-f]{4}", info.earlier_ceilings.run_id)


@pytest.mark.parametrize(
    "image",
    ["registry.lab.example/group/image:3", "registry.lab.example:5000/image", "docker:lab/image", "ghcr.io/lab/x"],
)
def test_the_registry_of_an_image_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = make_run(tmp_path / "run", [unmeasured("fma", "failed", f"{image}: 3 items/s of matmul.n=4/5")])
    (pack,) = write_anonymous_pack([run], MARVIN, tmp_path / "pack")
    (found,) = open_packed(pack).records()
    assert found.reason == f"{HIDDEN}: 3 items/s of matmul.n=4/5"


def test_the_command_prints_what_it_leaves_out_and_what_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", rich_records())
    assert main(["pack", "run", "--anonymous", "--out", "pack"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[:2]] == ["left out", "kept"]


def test_the_date_is_kept_and_the_time_of_day_is_removed(packed: RunStore) -> None:
    info, records = packed.info(), packed.records()
    assert info.created == datetime(2026, 3, 14, tzinfo=UTC)
    starts = sorted(found.started for found in records)
    assert [later - starts[0] for later in starts] == [timedelta(seconds=7 * number) for number in range(len(starts))]
    assert starts[0].date() == info.created.date()


def test_a_gpu_is_identifiable_only_within_a_run(packed: RunStore) -> None:
    assert [gpu.uuid_hash for gpu in packed.info().environment.gpus] == ["0" * 12]


def test_files_of_a_profile_are_removed_and_not_linked(packed: RunStore) -> None:
    (profiled,) = [found.profile for found in packed.records() if found.profile]
    assert (profiled.trace_folder, profiled.host_folder) == (None, None)
    links = re.findall(r'href="\./([^"]*)"', (packed.path / "report.html").read_text())
    assert links == ["records.csv", "records.parquet", "records.jsonl"]
    assert all((packed.path / link).is_file() for link in links)
    assert all(not emptied for emptied in EMPTIED.values())


@pytest.mark.slow
@pytest.mark.needs("host-names")
def test_an_ordinary_bundle_is_complete(run: Path, tmp_path: Path, accelbench: Run) -> None:
    assert accelbench("pack", run, "--out", tmp_path / "whole").returncode == 0
    names = [name for name, _ in contents(tmp_path / "whole")]
    assert any("/logs/" in name for name in names)
    assert any(name.endswith("localhost.xplane.pb") for name in names)
