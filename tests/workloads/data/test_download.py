"""Downloads are complete or absent, verified, and continued after an interruption."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.workloads.data import DataError
from accelbench.workloads.data.fetch import fetch
from accelbench.workloads.data.sources import SOURCES
from tests.workloads.data.serving import NOWHERE, Served, declare, redeclare

CONTENT = os.urandom(3 << 20)


@pytest.fixture
def served(server: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    server.files["mnist.npz"] = CONTENT
    declare(monkeypatch, "mnist", CONTENT, url=server.url)
    return server


@pytest.fixture
def part(cache: Path) -> Path:
    cache.mkdir()
    return cache / "mnist.npz.part"


def visible(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if not path.name.startswith("."))


def test_a_download_is_complete_and_readable_by_all_users(served: Served, cache: Path) -> None:
    old = os.umask(0o077)
    try:
        path = fetch("mnist")
    finally:
        os.umask(old)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o644
    assert cache.stat().st_mode & 0o777 == 0o755
    assert visible(cache) == ["mnist.npz"]


def test_fetching_again_sends_no_request(served: Served) -> None:
    fetch("mnist")
    fetch("mnist")
    assert served.asked == [None]


def test_an_interrupted_download_is_continued(served: Served, part: Path) -> None:
    served.breaks_after = 1_000_000
    steps: list[tuple[str, int, int | None]] = []
    with pytest.raises(DataError, match="ChunkedEncodingError"):
        fetch("mnist")
    kept = part.stat().st_size
    assert part.read_bytes() == CONTENT[:kept]
    assert kept > 1_990_000, "pooch's retry continues, too"
    served.breaks_after = None
    assert fetch("mnist", progress=lambda *step: steps.append(step)).read_bytes() == CONTENT
    assert served.asked[0] is None
    assert served.asked[-1] == f"bytes={kept}-"
    assert steps[0] == ("mnist.npz", kept + 1024, len(CONTENT))
    assert not part.exists()


def test_a_server_without_ranges_restarts_the_download(
    served: Served, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelbench.workloads.data.download.RATE_S", 0)
    monkeypatch.setattr("accelbench.workloads.data.download.SLOWEST", 0)  # only a negative rate is too slow
    served.ranges = False
    part.write_bytes(CONTENT[: 2 << 20])
    assert fetch("mnist").read_bytes() == CONTENT


def test_a_response_without_length_is_accepted(served: Served) -> None:
    served.length_known = False
    assert fetch("mnist").read_bytes() == CONTENT


def test_a_part_of_an_older_file_is_replaced(served: Served, part: Path) -> None:
    part.write_bytes(b"older" * 1000)
    assert fetch("mnist").read_bytes() == CONTENT
    assert served.asked == ["bytes=5000-", None]


@pytest.mark.parametrize("surplus", [b"", b"more"], ids=["complete", "too long"])
def test_a_part_with_nothing_missing_is_replaced(served: Served, part: Path, surplus: bytes) -> None:
    part.write_bytes(CONTENT + surplus)
    assert fetch("mnist").read_bytes() == CONTENT


@pytest.mark.parametrize("begun", [0, 10])
def test_wrong_bytes_are_requested_twice_and_not_kept(served: Served, part: Path, cache: Path, begun: int) -> None:
    part.write_bytes(CONTENT[:begun])
    served.files["mnist.npz"] = b"<html>Please log in</html>"
    with pytest.raises(DataError, match="SHA256"):
        fetch("mnist")
    assert served.asked == [f"bytes={begun}-" if begun else None, None]
    assert visible(cache) == []


def test_a_missing_page_is_reported_in_one_line(served: Served, cache: Path) -> None:
    served.files.clear()
    with pytest.raises(DataError, match="404") as raised:
        fetch("mnist")
    assert "\n" not in str(raised.value)
    assert visible(cache) == []


@pytest.mark.parametrize("begun", [0, 1000])
def test_a_server_that_announces_too_many_bytes_is_cut_off(served: Served, part: Path, cache: Path, begun: int) -> None:
    part.write_bytes(CONTENT[:begun])
    served.files["mnist.npz"] = CONTENT * 10
    with pytest.raises(DataError, match="3,145,728"):
        fetch("mnist")
    assert served.sent < len(CONTENT) * 10
    assert visible(cache) == []


@pytest.mark.parametrize("size", [len(CONTENT), None], ids=["size stated", "size not stated"])
def test_a_server_that_sends_too_many_bytes_is_cut_off(
    server: Served, monkeypatch: pytest.MonkeyPatch, cache: Path, size: int | None
) -> None:
    monkeypatch.setattr("accelbench.workloads.data.sources.MOST_BYTES", 2 * len(CONTENT))
    server.files["mnist.npz"] = CONTENT
    server.endless = True
    source = declare(monkeypatch, "mnist", CONTENT, url=server.url)
    redeclare(monkeypatch, "mnist", (replace(source.files[0], size=size),))
    with pytest.raises(DataError, match=r"[36],[0-9,]+ bytes"):
        fetch("mnist")
    assert visible(cache) == []


@pytest.mark.parametrize("length_known", [True, False])
def test_a_slow_transfer_is_aborted_and_its_bytes_are_kept(
    served: Served, monkeypatch: pytest.MonkeyPatch, part: Path, length_known: bool
) -> None:
    monkeypatch.setattr("accelbench.workloads.data.download.RATE_S", 0.2)
    monkeypatch.setattr("accelbench.workloads.data.download.CHUNK", 8)
    served.trickles, served.length_known = True, length_known
    with pytest.raises(DataError, match="1,000 bytes/s"):
        fetch("mnist")
    assert CONTENT.startswith(part.read_bytes())
    assert part.stat().st_size > 0


def test_a_stalled_transfer_is_aborted(served: Served, monkeypatch: pytest.MonkeyPatch, part: Path) -> None:
    monkeypatch.setattr("accelbench.workloads.data.download.TIMEOUT_S", (10, 1.0))
    served.stalls_after = 100_000
    with pytest.raises(DataError, match="ConnectionError"):
        fetch("mnist")
    assert len(part.read_bytes()) > 190_000
    assert CONTENT.startswith(part.read_bytes())


def test_without_network_the_error_names_the_option_for_a_local_file(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    declare(monkeypatch, "mnist", CONTENT, url=NOWHERE)
    with pytest.raises(DataError, match=r"ConnectionError.*--from"):
        fetch("mnist")


def test_a_full_disk_is_reported_and_the_arrived_bytes_are_kept(served: Served, part: Path) -> None:
    part.symlink_to("/dev/full")
    with pytest.raises(DataError, match=rf"{os.strerror(errno.ENOSPC)}.*ACCELBENCH_DATA"):
        fetch("mnist")


@pytest.mark.usefixtures("plain_user")
def test_a_read_only_folder_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELBENCH_DATA", "/usr/accelbench")
    with pytest.raises(DataError, match=rf"mnist: {os.strerror(errno.EACCES)}.*ACCELBENCH_DATA"):
        fetch("mnist")


def test_concurrent_fetches_download_once(served: Served) -> None:
    served.gate = threading.Event()
    told: list[str] = []

    def second() -> None:
        def progress(what: str, done: int, total: int | None) -> None:
            told.append(what)
            assert served.gate is not None
            served.gate.set()  # the first fetch continues only now

        fetch("mnist", progress=progress)

    first = threading.Thread(target=fetch, args=("mnist",))
    first.start()
    while not served.asked:
        first.join(0.01)
    waiting = threading.Thread(target=second)
    waiting.start()
    waiting.join(60)
    first.join(60)
    assert told[0].startswith("waiting")
    assert served.asked == [None]
    assert SOURCES["mnist"].path.read_bytes() == CONTENT
