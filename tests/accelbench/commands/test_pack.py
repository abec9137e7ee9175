"""Tests of bundles: runs in one file, read like their directories, and safe to open from any source."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.pack import read, written_parts
from accelbench.pack.read import find_pack, open_packed
from accelbench.pack.write import write_pack
from tests.conftest import Run
from tests.fixtures.report_node import rich_records
from tests.fixtures.report_runs import make_run

NOISE = 300_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunStore:
    """Run with a log, an incompressible trace, and files that do not belong into a bundle."""
    store = make_run(tmp_path / "rich", rich_records())
    for name, content in {"logs/matmul.log": b"said", "traces/cnn/plugins/host.xplane.pb": os.urandom(NOISE)}.items():
        (store.path / name).parent.mkdir(parents=True)
        (store.path / name).write_bytes(content)
    (store.path / ".lock").touch()
    (store.path / "link").symlink_to("/etc/passwd")
    return store


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of the regular files of a run by name."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_bundle_preserves_a_run(run: RunStore, tmp_path: Path) -> None:
    (pack,) = write_pack([run], tmp_path / "one.tar.xz")
    assert contents(open_packed(pack).path) == contents(run.path)


def test_a_bundle_is_named_by_date_and_machine(run: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (pack,) = write_pack([run])
    info = run.info()
    assert pack.name == f"{info.created:%Y%m%d-%H%M%S}-nvidia-h200.tar.xz"
    with pytest.raises(UserError, match="--out"):
        write_pack([run])


def test_traces_can_be_left_out(run: RunStore, tmp_path: Path) -> None:
    (complete,), (light,) = (
        write_pack([run], tmp_path / "complete"),
        write_pack([run], tmp_path / "light", traces=False),
    )
    assert light.stat().st_size < complete.stat().st_size - NOISE / 2
    kept = contents(open_packed(light).path)
    assert kept == {name: content for name, content in contents(run.path).items() if not name.startswith("traces")}


def test_parts_have_the_requested_size_and_are_joined(run: RunStore, tmp_path: Path) -> None:
    parts = write_pack([run], tmp_path / "cut.tar.xz", part_mib=0.1)
    count = len(parts)
    assert count > 2
    assert [part.name for part in parts] == [f"cut.tar.xz.part{i}of{count}" for i in range(1, count + 1)]
    assert all(part.stat().st_size <= 0.1 * 2**20 for part in parts)
    for named in (parts[0], parts[-1], tmp_path / "cut.tar.xz"):
        assert find_pack(str(named)) == (named, None)
        assert contents(open_packed(named).path) == contents(run.path)


def test_more_than_nine_parts_are_in_order(run: RunStore, tmp_path: Path) -> None:
    parts = write_pack([run], tmp_path / "cut", part_mib=0.02)
    assert len(parts) > 9
    assert written_parts(tmp_path / "cut") == parts
    assert contents(open_packed(tmp_path / "cut").path) == contents(run.path)


def test_a_missing_part_is_named(run: RunStore, tmp_path: Path) -> None:
    parts = write_pack([run], tmp_path / "cut", part_mib=0.1)
    parts[1].unlink()
    with pytest.raises(UserError, match=parts[1].name):
        open_packed(parts[0])


def test_a_bundle_that_fits_one_part_is_one_file(run: RunStore, tmp_path: Path) -> None:
    assert write_pack([run], tmp_path / "small", part_mib=15) == [tmp_path / "small"]


def test_runs_in_folders_with_one_name_are_identified_by_their_ids(run: RunStore, tmp_path: Path) -> None:
    other = make_run(tmp_path / "elsewhere" / run.path.name, [])
    other.write_info(other.info().model_copy(update={"run_id": "20250102-000000-other-0000"}))
    (pack,) = write_pack([run, other], tmp_path / "both")
    assert open_packed(pack, "20250102-000000-other-0000").records() == []
    assert open_packed(pack, run.info().run_id).records() == run.records()


def test_a_bundle_is_unpacked_once(run: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pack,) = write_pack([run], tmp_path / "one")
    first = open_packed(pack).path
    monkeypatch.delattr(read, "_extract")
    assert open_packed(pack).path == first


@pytest.mark.parametrize("kept", [0, 20, 1000, -1])
def test_a_truncated_bundle_is_an_error(run: RunStore, tmp_path: Path, cache: Path, kept: int) -> None:
    (pack,) = write_pack([run], tmp_path / "one")
    pack.write_bytes(pack.read_bytes()[:kept])
    with pytest.raises(UserError, match="one"):
        open_packed(pack)
    assert list((cache / "accelbench" / "packs").iterdir()) == []


def test_any_flipped_bit_is_detected(tmp_path: Path) -> None:
    (pack,) = write_pack([make_run(tmp_path / "empty", [])], tmp_path / "one")
    complete = pack.read_bytes()
    for place in range(0, len(complete), 97):
        pack.write_bytes(complete[:place] + bytes([complete[place] ^ 0x10]) + complete[place + 1 :])
        with pytest.raises(UserError):
            open_packed(pack)


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("run/link")
    member.type, member.linkname = kind, target
    return member


def sized(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


MALICIOUS: dict[str, tuple[list[tarfile.TarInfo], str]] = {
    "an absolute name": ([sized("/tmp/escaped", 0)], "/tmp/escaped"),
    "a way up": ([sized("run/../../escaped", 0)], "escaped"),
    "a symbolic link": ([link(tarfile.SYMTYPE, "/etc")], "neither"),
    "a hard link": ([link(tarfile.LNKTYPE, "/etc/passwd")], "neither"),
    "a device": ([link(tarfile.CHRTYPE, "")], "neither"),
    "a named pipe": ([link(tarfile.FIFOTYPE, "")], "neither"),
    "a file twice": ([sized("run/a", 0), sized("run/a", 0)], "twice"),
    "a file as a folder": ([sized("run/a", 0), sized("run/a/b", 0)], "twice"),
    "too much": ([sized("run/huge", 9 << 30)], "8 GiB"),
    "too many": ([sized(f"run/{i}", 0) for i in range(21)], "20 files"),
    "no run": ([sized("run/records.jsonl", 0)], "no run"),
}


@pytest.mark.parametrize(("members", "message"), MALICIOUS.values(), ids=MALICIOUS.keys())
def test_malicious_members_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[tarfile.TarInfo], message: str
) -> None:
    monkeypatch.setattr(read, "MOST_FILES", 20)
    pack = tmp_path / "evil.tar.xz"
    with lzma.open(pack, "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for member in members:
            archive.fileobj.write(member.tobuf())  # without contents, which `addfile` requires since Python 3.13
    with pytest.raises(UserError, match=message):
        open_packed(pack)
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/escaped").exists()


def with_header(kind: bytes, size: int) -> tarfile.TarInfo:
    """Return an extended header of this size without content."""
    member = sized("././@PaxHeader", size)
    member.type = kind
    return member


NESTED = "/".join(["a"] * 40)


@pytest.mark.parametrize(
    "members",
    [
        [with_header(tarfile.XHDTYPE, 3 << 30)],
        [with_header(tarfile.XGLTYPE, 3 << 30)],
        [with_header(tarfile.GNUTYPE_LONGNAME, 3 << 30)],
        [with_header(tarfile.GNUTYPE_LONGLINK, 3 << 30)],
        [with_header(tarfile.XHDTYPE, 0)] * 5000,
        [sized(NESTED, 0)],
    ],
    ids=["pax", "global pax", "long name", "long link", "many headers", "depth"],
)
def test_the_size_of_headers_is_limited(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    pack = tmp_path / "evil.tar.xz"
    with lzma.open(pack, "wb") as packed:
        packed.writelines(member.tobuf(tarfile.GNU_FORMAT) for member in members)
        packed.write(bytes(64 << 20))
    with pytest.raises(UserError):
        open_packed(pack)


def test_a_large_dictionary_is_refused(run: RunStore, tmp_path: Path) -> None:
    (pack,) = write_pack([run], tmp_path / "one")
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    content = lzma.decompress(pack.read_bytes())
    header = lzma.compress(b"", filters=filters)[:24]  # compressing with it would need ten times the memory
    pack.write_bytes(header + lzma.compress(content)[24:])
    with pytest.raises(UserError):
        open_packed(pack)


def test_bytes_after_the_end_are_refused(run: RunStore, tmp_path: Path) -> None:
    (pack,) = write_pack([run], tmp_path / "one")
    pack.write_bytes(pack.read_bytes() + b"more")
    with pytest.raises(UserError):
        open_packed(pack)


def test_a_million_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.part1of999999999999").touch()
    with pytest.raises(UserError):
        open_packed(tmp_path / "one.part1of999999999999")


def test_the_cache_is_private(run: RunStore, tmp_path: Path, cache: Path) -> None:
    (pack,) = write_pack([run], tmp_path / "one")
    before = os.umask(0)
    try:
        open_packed(pack)
    finally:
        os.umask(before)
    assert (cache / "accelbench").stat().st_mode & 0o077 == 0


@pytest.fixture
def two_runs(accelbench: Run, tmp_path: Path) -> None:
    """Bundle of a measured run and of its copy with another ID."""
    process = accelbench("run", "behave", "--no-ceilings", "--max-seconds", "0.5", "--out", "before")
    assert process.returncode == 0, process.stderr
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    described = (tmp_path / "after" / "run.json").read_text("utf-8")
    (tmp_path / "after" / "run.json").write_text(described.replace('"run_id": "', '"run_id": "copy-of-'), "utf-8")
    process = accelbench("pack", "before", "after", "--out", "both.tar.xz")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("both.tar.xz ")


@pytest.mark.slow
@pytest.mark.usefixtures("two_runs")
def test_report_and_compare_accept_a_bundle(accelbench: Run, tmp_path: Path, cache: Path) -> None:
    report = accelbench("report", "both.tar.xz:after")
    assert report.returncode == 0, report.stderr
    assert "1 of 1 points" in report.stdout
    page = Path(report.stdout.split()[-1])
    assert page.is_relative_to(cache)
    assert page.parent.name == "after"
    shutil.rmtree(tmp_path / "before")
    compared = accelbench("compare", "both.tar.xz:before", "after")
    assert compared.returncode == 0, compared.stderr
    assert "behave" in compared.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("two_runs")
def test_an_ambiguous_bundle_lists_its_runs_and_cannot_be_resumed(accelbench: Run) -> None:
    for name, problem in (("both.tar.xz", "2 runs"), ("both.tar.xz:later", "'later'")):
        process = accelbench("report", name)
        assert process.returncode == 2
        assert problem in process.stderr
        assert "both.tar.xz:after, both.tar.xz:before" in process.stderr
    process = accelbench("resume", "both.tar.xz")
    assert process.returncode == 2
    assert "both.tar.xz is not a run directory" in process.stderr
