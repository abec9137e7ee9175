"""Resource restrictions of a training run: visible GPUs and withheld memory."""

from __future__ import annotations

import os

import psutil
import pytest

from accelbench.profiling.machine.nvidia import cuda
from accelbench.profiling.records.point import Point
from accelbench.workloads.training import given


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "_HELD", [])


def point(**params: str | int) -> Point:
    return Point("some", "gpu", {"batch": 8, **params}, "torch")


@pytest.mark.parametrize(
    ("before", "devices", "after"),
    [("", 1, "0"), ("", 2, "0,1"), ("3,1,2", 1, "3"), ("GPU-a,GPU-b", 2, "GPU-a,GPU-b"), ("5", 2, "5")],
)
def test_only_the_first_gpus_that_a_point_uses_are_visible(
    monkeypatch: pytest.MonkeyPatch, before: str, devices: int, after: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    given.give(point(devices=devices, visible="used"))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == after


def test_half_of_the_hosts_free_memory_is_allocated_and_resident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.machine.free_memory.available_bytes", lambda: 256 << 20)
    before = psutil.Process().memory_info().rss
    given.give(point(held="host-memory"))
    assert psutil.Process().memory_info().rss - before > 120 << 20
    assert [memory.nbytes for memory in given._HELD] == [128 << 20]


def test_half_of_the_gpus_free_memory_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(cuda, "free_memory", lambda: 1000)
    monkeypatch.setattr(cuda, "call", lambda *arguments: asked.append(arguments))
    given.give(point(held="gpu-memory"))
    assert asked == [("cudaMalloc", 500)]


def test_by_default_nothing_is_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    given.give(point())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,2"
    assert given._HELD == []
