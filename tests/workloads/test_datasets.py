"""Data sets are real, fetched by an explicit step, and never half there."""

from __future__ import annotations

import hashlib
import os
import pwd
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads import datasets
from workloads.datasets import SOURCES, DataError, Source, fetch, load_mnist


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(datasets.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[Path]:
    """A small file of MNIST's form on a real server on the loopback interface, declared as the data set."""
    folder = tmp_path / "server"
    folder.mkdir()
    generator = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "x_train": generator.integers(0, 256, (60, 28, 28), np.uint8),
        "y_train": generator.integers(0, 10, 60, np.uint8),
        "x_test": generator.integers(0, 256, (10, 28, 28), np.uint8),
        "y_test": generator.integers(0, 10, 10, np.uint8),
    }
    np.savez(folder / "mnist.npz", **arrays)
    declare(monkeypatch, sha256=hashlib.sha256((folder / "mnist.npz").read_bytes()).hexdigest())
    with serving(folder, SimpleHTTPRequestHandler) as url:
        declare(monkeypatch, url=url)
        yield folder / "mnist.npz"


@contextmanager
def serving(folder: Path, handler: type[SimpleHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/mnist.npz"
    server.shutdown()
    server.server_close()


class HangsUp(SimpleHTTPRequestHandler):
    """Announces the whole file, sends half of it and closes the connection."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        outputfile.write(content[: len(content) // 2])


def declare(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Source:
    source = replace(SOURCES["mnist"], **changes)
    monkeypatch.setitem(SOURCES, "mnist", source)
    return source


def test_without_a_download_5000_real_digits_are_there(cache: Path) -> None:
    digits = load_mnist()
    assert digits.x_train.shape == (4000, 28, 28)
    assert digits.x_test.shape == (1000, 28, 28)
    assert np.bincount(digits.y_train).tolist() == [400] * 10
    assert np.bincount(digits.y_test).tolist() == [100] * 10
    assert digits.x_train.max() == 255
    together = {image.tobytes() for image in digits.x_train} & {image.tobytes() for image in digits.x_test}
    assert not together, "an image is both trained on and held out"


def test_a_fetched_set_is_used_from_then_on(served: Path) -> None:
    path = fetch("mnist")
    assert path.read_bytes() == served.read_bytes()
    digits = load_mnist()
    assert digits.source == "MNIST"
    assert len(digits.x_train) == 60


def test_fetching_again_needs_no_network(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch("mnist")
    declare(monkeypatch, url="http://127.0.0.1:9/mnist.npz")
    assert fetch("mnist").is_file()


def test_a_local_copy_serves_a_machine_without_a_network(
    served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, url="http://127.0.0.1:9/mnist.npz")
    with pytest.raises(DataError, match="--from FILE"):
        fetch("mnist")
    assert fetch("mnist", served).read_bytes() == served.read_bytes()


def test_a_file_with_another_checksum_is_not_kept(served: Path, cache: Path) -> None:
    served.write_bytes(served.read_bytes() + b"!")
    with pytest.raises(DataError, match="SHA-256"):
        fetch("mnist")
    with pytest.raises(DataError, match="SHA-256"):
        fetch("mnist", served)
    assert list(cache.iterdir()) == []


def test_a_damaged_cache_is_an_error_and_not_another_data_set(served: Path) -> None:
    path = fetch("mnist")
    path.write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"not the file it should be.*accelbench data fetch mnist"):
        load_mnist()
    assert fetch("mnist").read_bytes() == served.read_bytes()
    path.write_bytes(b"damaged again")
    assert fetch("mnist", served).read_bytes() == served.read_bytes()


def test_a_download_that_breaks_off_leaves_nothing_and_can_be_repeated(
    served: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SOURCES["mnist"].url
    with serving(served.parent, HangsUp) as url:
        declare(monkeypatch, url=url)
        with pytest.raises(DataError, match="cannot download"):
            fetch("mnist")
    assert list(cache.iterdir()) == []
    declare(monkeypatch, url=whole)
    assert fetch("mnist").read_bytes() == served.read_bytes()


def test_a_page_that_is_gone_is_one_line(served: Path, cache: Path) -> None:
    served.unlink()
    with pytest.raises(DataError, match=r"cannot download .*HTTPError") as raised:
        fetch("mnist")
    assert "\n" not in str(raised.value)
    assert list(cache.iterdir()) == []


def test_every_user_of_a_shared_cache_may_read_it(served: Path) -> None:
    for path in (fetch("mnist"), fetch_again_from(served)):
        assert path.stat().st_mode & 0o777 == 0o644


def fetch_again_from(local: Path) -> Path:
    SOURCES["mnist"].path.unlink()
    return fetch("mnist", local)


def test_without_a_home_directory_the_offline_digits_serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_entry(user: int) -> None:
        raise KeyError(user)

    for variable in ("HOME", "XDG_CACHE_HOME", datasets.CACHE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    monkeypatch.chdir(tmp_path)
    assert len(load_mnist().x_train) == 4000
    with pytest.raises(DataError, match=f"no home directory.*{datasets.CACHE_VARIABLE}"):
        fetch("mnist")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_may_not_be_entered_holds_nothing(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may enter every folder
    try:
        assert not SOURCES["mnist"].present
    finally:
        os.seteuid(user)
        cache.chmod(0o700)


def test_an_unwritable_cache_and_a_missing_file_are_one_line_each(
    served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="No such file"):
        fetch("mnist", tmp_path / "missing.npz")
    monkeypatch.setenv(datasets.CACHE_VARIABLE, "/proc/accelbench")
    with pytest.raises(DataError, match="cannot fetch mnist"):
        fetch("mnist", served)


def test_an_unknown_data_set_names_the_known_ones() -> None:
    with pytest.raises(DataError, match="there is mnist"):
        fetch("minst")
