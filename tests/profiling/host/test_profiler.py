"""Tests of the complete host profile, on programs with a known distribution of host time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accelbench.profiling.host.profiler import HostProfiler
from accelbench.profiling.records.host import HostProfile
from tests.fixtures.programs import (
    BUSY,
    BUSY_WHILE_MAIN_SLEEPS,
    MATRIX_PRODUCT,
    SLOW_GENERATOR,
    running,
)

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]


def profile(program: str, folder: Path, windows: int, budget: float = 0.03) -> HostProfile:
    """Return the profile of the program over the given number of py-spy windows."""
    with running(program) as process, HostProfiler(process.pid, folder, budget=budget) as profiler:
        deadline = time.monotonic() + 90
        while len(profiler._sampler.result().windows) < windows and time.monotonic() < deadline:
            time.sleep(0.1)
    return profiler.result()


def test_a_loop_in_python_is_dispatch_and_holds_the_gil(tmp_path: Path) -> None:
    found = profile(BUSY, tmp_path, windows=3)
    assert found.largest() == "dispatch"
    assert found.step_thread is not None
    assert found.step_thread["dispatch"] > 0.8
    assert found.cpu is not None
    assert found.cpu["dispatch"] > 0.9
    assert found.gil_held is not None
    assert found.gil_held > 0.8
    assert list(found.gil_holders) == ["MainThread"]


def test_a_thread_that_waits_for_another_is_waiting(tmp_path: Path) -> None:
    found = profile(BUSY_WHILE_MAIN_SLEEPS, tmp_path, windows=3)
    assert found.largest() == "waiting"
    assert found.cpu is not None
    assert found.cpu["dispatch"] > 0.9  # the other thread's
    assert found.threads[0].name == "spinner"


def test_a_matrix_product_is_kernels(tmp_path: Path) -> None:
    found = profile(MATRIX_PRODUCT, tmp_path, windows=4, budget=1.0)
    assert found.largest() == "kernels"
    assert found.cpu is not None
    assert found.cpu["kernels"] > 0.8
    assert found.missing == []
    for kind in ("speedscope", "speedscope_native"):
        assert json.loads((tmp_path / found.files[kind]).read_text(encoding="utf-8"))["profiles"]
    for kind in ("flamegraph", "flamegraph_native"):
        assert len(ElementTree.parse(tmp_path / found.files[kind]).getroot()) > 5
    assert HostProfile.model_validate_json(found.model_dump_json()) == found


def test_a_slow_generator_is_data_input(tmp_path: Path) -> None:
    found = profile(SLOW_GENERATOR, tmp_path, windows=2)
    assert found.cpu is not None
    assert max(found.cpu, key=lambda category: found.cpu[category] if found.cpu else 0) == "input"
    assert found.data_makers is not None
    assert found.data_makers > 0.5
    assert found.largest() == "waiting"  # the training thread waits in TensorFlow for the batch
    assert found.missing[0].startswith("native frames: ")


def test_a_worker_that_dies_is_profiled_until_its_death(tmp_path: Path) -> None:
    with running(BUSY) as process, HostProfiler(process.pid, tmp_path) as profiler:
        while not profiler._sampler.result().windows:
            time.sleep(0.1)
        process.kill()
        process.wait()
    found = profiler.result()
    assert found.largest() == "dispatch"
    assert found.counters.cpu_s is not None
    assert (tmp_path / found.files["flamegraph"]).exists()


def test_an_empty_block_has_counters_and_lists_what_is_missing(tmp_path: Path) -> None:
    with HostProfiler(os.getpid(), tmp_path) as profiler:
        pass
    found = profiler.result()
    assert found.counters.rss_peak_bytes is not None
    assert found.step_thread is None
    assert found.gil_held is None
    assert "step thread" in found.missing[-1]


def test_a_process_can_profile_itself(tmp_path: Path) -> None:
    with HostProfiler(os.getpid(), tmp_path) as profiler:
        while not profiler._sampler.result().windows and not profiler._sampler._missing:
            sum(range(10_000))
    assert profiler.result().largest() == "dispatch"
