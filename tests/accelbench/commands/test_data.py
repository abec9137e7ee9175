"""Tests of `accelbench data` with a real server, with and without a terminal."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Run, environment
from tests.workloads.data.archives import pets_tars
from tests.workloads.data.serving import NOWHERE, Served, serving, sha256

DIGITS = os.urandom(2 << 20)

COMMAND = """
import json, os, sys
from dataclasses import replace
from accelbench.workloads.data.sources import SOURCES
for name, changes in json.loads(os.environ["TEST_SOURCES"]).items():
    files = tuple(replace(file, **change) for file, change in zip(SOURCES[name].files, changes, strict=True))
    SOURCES[name] = replace(SOURCES[name], files=files)
from accelbench.__main__ import main
sys.exit(main())
"""
"""The real command with data sets on a test server."""

Data = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def server() -> Iterator[Served]:
    with serving() as served:
        images, annotations = pets_tars()
        served.files |= {"mnist.npz": DIGITS, "images.tar.gz": images, "annotations.tar.gz": annotations}
        yield served


@pytest.fixture
def variables(server: Served, tmp_path: Path) -> dict[str, str]:
    def changes(name: str, url: str = server.url) -> dict[str, object]:
        content = server.files[name]
        return {"url": url + name, "sha256": sha256(content), "size": len(content)}

    sources = {"mnist": [changes("mnist.npz")], "pets": [changes("images.tar.gz"), changes("annotations.tar.gz")]}
    return environment(ACCELBENCH_DATA=str(tmp_path / "cache"), TEST_SOURCES=json.dumps(sources))


@pytest.fixture
def data(variables: dict[str, str], tmp_path: Path) -> Data:
    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, "data", *arguments],
            cwd=tmp_path,
            env=variables | changes,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )

    return run


@pytest.mark.slow
def test_fetch_list_verify_and_repair(data: Data, tmp_path: Path) -> None:
    fetched = data("fetch", "mnist")
    path = tmp_path / "cache" / "mnist.npz"
    assert (fetched.returncode, fetched.stdout, fetched.stderr) == (0, f"mnist is in {path}\n", "")
    assert path.read_bytes() == DIGITS
    assert f"         {path}\n" in data("list").stdout
    verified = data("verify")
    assert verified.returncode == 0
    assert f"mnist  complete: {path}" in verified.stdout

    path.write_bytes(b"damaged")
    damaged = data("verify")
    assert damaged.returncode == 1
    assert "mnist  corrupt: mnist.npz" in damaged.stdout
    assert data("verify", "pets").returncode == 1, "a named data set is missing"
    assert data("fetch", "mnist").returncode == 0
    assert data("verify", "mnist").returncode == 0


@pytest.mark.slow
def test_an_interrupted_download_is_resumed(data: Data, server: Served) -> None:
    server.breaks_after = 1 << 19
    broken = data("fetch", "mnist")
    assert broken.returncode == 2
    assert broken.stderr.count("\n") == 1
    assert "MB downloaded" in data("list").stdout
    half = data("verify")
    assert half.returncode == 1
    assert "mnist  partial: " in half.stdout
    server.breaks_after = None
    assert data("fetch", "mnist").returncode == 0
    assert server.asked[-1] is not None, "downloaded from the beginning"


def test_archives_are_unpacked_and_missing_files_are_named(data: Data, tmp_path: Path) -> None:
    assert data("fetch", "pets").returncode == 0
    image = tmp_path / "cache" / "pets" / "images" / "pug_2.jpg"
    assert image.is_file()
    mine = image.with_name("mine.jpg")
    mine.touch()
    extended = data("verify", "pets")
    assert extended.returncode == 1
    assert re.search(r"^pets +extended: .* images/mine\.jpg$", extended.stdout, re.MULTILINE)
    mine.unlink()
    image.unlink()
    damaged = data("verify", "pets", "mnist")
    assert damaged.returncode == 1
    assert re.search(r"^pets +corrupt: images/pug_2\.jpg: " + os.strerror(errno.ENOENT), damaged.stdout, re.MULTILINE)
    assert "mnist  absent: " in damaged.stdout


def test_local_files_replace_the_download(data: Data, server: Served, tmp_path: Path) -> None:
    for name in ("images.tar.gz", "annotations.tar.gz"):
        (tmp_path / name).write_bytes(server.files[name])
    fetched = data("fetch", "pets", "--from", "annotations.tar.gz", "--from", "images.tar.gz")
    assert fetched.returncode == 0, fetched.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "minst"], "did you mean 'mnist'"),
        (["verify", "pests"], "did you mean 'pets'"),
        (["fetch", "imagenet"], "train/CLASS/IMAGE"),
        (["fetch", "mnist", "--from", "missing.npz"], "missing.npz"),
        (["fetch", "mnist", "--from", "."], "mnist.npz"),
        (["verify", "mnist", "--all"], "No such option"),
    ],
    ids=" ".join,
)
def test_a_usage_error_is_one_line_and_status_2(data: Data, arguments: list[str], message: str) -> None:
    process = data(*arguments)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_missing_network_home_or_permission_is_one_line(data: Data, accelbench: Run, tmp_path: Path) -> None:
    sources = {"mnist": [{"url": NOWHERE + "mnist.npz"}]}
    processes = {
        "--from FILE": data("fetch", "mnist", TEST_SOURCES=json.dumps(sources)),
        "cannot fetch mnist": data("fetch", "mnist", ACCELBENCH_DATA="/proc/nothing"),
        "no home directory": data("fetch", "mnist", ACCELBENCH_DATA="~nobody-of-that-name/data"),
    }
    for message, process in processes.items():
        assert process.returncode == 2, process.stdout
        assert message in process.stderr
        assert process.stderr.count("\n") == 1
    listed = data("list", ACCELBENCH_DATA="~nobody-of-that-name/data")
    assert listed.returncode == 0
    assert "no home directory" in listed.stdout


def test_progress_on_a_terminal(variables: dict[str, str], tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "data", "fetch", "pets"],
        cwd=tmp_path,
        env=variables | {"TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        stderr=side,
    )
    os.close(side)
    shown = b""
    try:
        while piece := os.read(terminal, 65536):
            shown += piece
    except OSError:  # the terminal's other side is closed
        pass
    assert process.wait(60) == 0
    os.close(terminal)
    assert b"pets-images.tar.gz" in shown
    assert b"unpacking pets-annotations.tar.gz" in shown
    assert process.stdout is not None
    assert process.stdout.read().decode() == f"pets is in {tmp_path / 'cache' / 'pets'}\n"
    process.stdout.close()


@pytest.mark.slow
def test_the_commands_import_neither_frameworks_nor_numpy(tmp_path: Path, accelbench: Run) -> None:
    for name in ("tensorflow", "keras", "jax", "torch", "numpy", "pandas", "matplotlib", "scipy"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is imported')")
    for arguments in (["list"], ["verify"], ["fetch", "embryo"]):
        process = accelbench("data", *arguments, PYTHONPATH=str(tmp_path), ACCELBENCH_DATA=str(tmp_path / "cache"))
        assert "is imported" not in process.stderr
