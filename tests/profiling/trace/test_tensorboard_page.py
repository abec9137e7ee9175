"""Tests of the real TensorBoard in a real browser without a network."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from accelbench.commands.tensorboard import SILENT, links, tensorboard_command
from accelbench.profiling.trace.scalars import ScalarPoint, write_scalars
from tests.browser import open_browser
from tests.conftest import ROOT
from tests.profiling.trace.conftest import Traced

pytestmark = pytest.mark.slow

PATIENCE_S = 90
FIRST, STEPS = 6, 8


@dataclass(frozen=True)
class Served:
    """A running TensorBoard."""

    address: str
    run: str
    traces: Path
    log: Path

    def get(self, path: str) -> Any:
        with urlopen(self.address + path, timeout=30) as answer:
            data = answer.read()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def until(poll: Callable[[], Any], what: str) -> Any:
    """Return the first non-empty result of `poll`."""
    last: object = None
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if found := poll():
                return found
        except (OSError, WebDriverException) as error:
            last = error
        time.sleep(0.3)
    pytest.fail(f"{what} did not come within {PATIENCE_S} s: {last}")


def test_unsupported_traces_are_reported_and_the_server_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "traces" / "001-cnn-mnist").mkdir(parents=True)
    (tmp_path / "traces" / "001-cnn-mnist" / "localhost.1.pt.trace.json.gz").touch()
    (tmp_path / "run.json").touch()
    command = [sys.executable, "-m", "accelbench", "tensorboard", str(tmp_path), "--port", "0"]
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stderr=output)
    (server,) = until(psutil.Process(process.pid).children, "the server")
    process.terminate()
    assert not psutil.wait_procs([psutil.Process(process.pid), server], timeout=PATIENCE_S)[1]
    assert "ui.perfetto.dev" in log.read_text()


@pytest.fixture(scope="module")
def served(tensorflow_traces: Traced, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("traces")
    shutil.copytree(tensorflow_traces.folder / "small", folder / "cnn")
    write_scalars(folder / "cnn", {"epoch/loss": [ScalarPoint(n, n * 1.0, 1 / n) for n in (1, 2, 3)]}, time.time())
    log = folder.with_suffix(".log")
    with log.open("w") as output:
        command, environment = tensorboard_command(folder, port=0), SILENT | os.environ
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT, env=environment)
    try:
        address = until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), "TensorBoard's address")[0]
        session = str(tensorflow_traces.outcomes["small"].file).split("/")[2]
        yield Served(address, f"cnn/{session}", folder, log)
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser() as chrome:
        yield chrome


def test_the_run_and_its_tools_are_listed(served: Served) -> None:
    assert served.get("/data/plugin/profile/runs") == [served.run]
    assert "trace_viewer@" in served.get(f"/data/plugin/profile/run_tools?run={served.run}")


def test_the_server_prints_nothing_before_its_address(served: Served) -> None:
    assert served.log.read_text(encoding="utf-8").startswith("TensorBoard ")


def test_the_scalars_are_served(served: Served) -> None:
    tags = until(lambda: served.get("/data/plugin/scalars/tags"), "the scalars")
    assert list(tags["cnn"]) == ["epoch/loss"]
    points = served.get("/data/plugin/scalars/scalars?run=cnn&tag=epoch/loss")
    assert [(step, value) for _, step, value in points] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]


def test_the_trace_viewer_shows_the_step_markers(browser: webdriver.Chrome, served: Served) -> None:
    scalars, trace = links(served.traces, int(served.address.rpartition(":")[2]))
    assert scalars.endswith("/#scalars")
    browser.get(trace.strip())

    def inside(script: str) -> Any:
        """Return the result of a script within the viewer, a frame in the plug-in's frame."""
        viewer = "document.querySelector('iframe').contentDocument.querySelector('iframe')"
        return browser.execute_script(f"const view = {viewer}.contentWindow, page = {viewer}.contentDocument; {script}")

    listed = "return document.querySelector('iframe').contentDocument.body.innerText"
    assert until(lambda: served.run in browser.execute_script(listed) and served.run, "the run's name")
    titles = """return page.querySelector('tr-ui-timeline-view').model.getAllThreads()
        .flatMap(thread => thread.sliceGroup.slices).map(slice => slice.title).filter(t => t.startsWith('train'))"""
    shown = until(lambda: inside(titles), "the steps")
    assert shown == [f"train {number}" for number in range(FIRST, FIRST + STEPS)]
    assert "python" in inside("return page.body.innerText")
    if folder := os.environ.get("SCREENSHOTS"):
        browser.save_screenshot(str(Path(folder) / "trace-viewer.png"))
