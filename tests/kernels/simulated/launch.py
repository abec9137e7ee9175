"""The launches in Numba's CUDA simulator, and the replay of a graph with a stream that captures them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.launch import counting
from accelbench.kernels.launch import gpu_numba as launch
from accelbench.kernels.lib.gpu.numba_cuda import cuda
from accelbench.profiling.benchmark import Task

Prepare = Callable[..., Task]


def test_counting_kernel_counts_its_launches() -> None:
    counter = np.zeros(1, np.int64)
    for _ in range(5):
        launch.count[1, 1](counter)
    launch.empty[1, 1]()
    assert counter[0] == 5


class CapturingStream:
    """A stream that notes what is launched on it, runs it at once or, between begin and end, only when replayed."""

    ptr = 77

    def __init__(self, non_blocking: bool) -> None:
        assert non_blocking, "the default stream may not be captured, and would wait for this one"
        self.current = False
        self.captured: list[Callable[[], object]] | None = None
        self.waits = 0

    def __enter__(self) -> CapturingStream:
        self.current = True
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.current = False

    def submit(self, work: Callable[[], object]) -> None:
        assert self.current
        if self.captured is None:
            work()
        else:
            self.captured.append(work)

    def synchronize(self) -> None:
        assert self.captured is None, "a capturing stream cannot be waited for"
        self.waits += 1

    def begin_capture(self) -> None:
        self.captured = []

    def end_capture(self) -> Any:
        captured, self.captured = self.captured, None
        assert captured is not None

        def replay(stream: CapturingStream) -> None:
            assert stream is self
            for work in captured:
                work()

        return SimpleNamespace(launch=replay)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[CapturingStream]:
    """Return the list of every stream that is made."""
    made: list[CapturingStream] = []

    def make(non_blocking: bool) -> CapturingStream:
        made.append(CapturingStream(non_blocking))
        return made[-1]

    cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=make, runtime=SimpleNamespace(is_hip=False)))
    monkeypatch.setattr(counting, "cupy_library", lambda: cupy)
    return made


def test_a_graph_holds_a_thousand_launches_and_replays_all_of_them(streams: list[CapturingStream]) -> None:
    launched = []

    def launch_on(handle: int) -> Callable[[], object]:
        assert handle == CapturingStream.ptr
        return lambda: streams[-1].submit(lambda: launched.append(handle))

    run = counting.execution("graph", launch_on)
    assert len(launched) == 1, "one launch before the capture, which itself launches nothing"
    waits = streams[0].waits
    for times in (1, 2, 3):
        run()
        assert len(launched) == 1 + 1000 * times
        assert streams[0].waits == waits + times


@pytest.mark.parametrize("mode", ["latency", "throughput"])
def test_numba_launches_as_often_as_it_says(prepared: Prepare, mode: str) -> None:
    task = prepared("launch.gpu_numba", mode=mode)
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert outcome.expected == str(counting.LAUNCHES[mode])
    assert task.work.items == counting.LAUNCHES[mode]
    assert task.timer == "host"


def test_numba_launches_into_the_captured_stream(
    prepared: Prepare, streams: list[CapturingStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream_of(handle: int) -> Any:
        assert handle == CapturingStream.ptr
        return cuda.default_stream()

    def submitting(kernel: Any, *args: Any) -> Callable[[int], Callable[[], object]]:
        return lambda handle: lambda: streams[-1].submit(lambda: kernel[1, 1, stream_of(handle)](*args))

    monkeypatch.setattr(launch, "launches_of", submitting)
    task = prepared("launch.gpu_numba", mode="graph")
    task.run()
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
        assert outcome.found == "1000"


def test_a_launch_that_is_lost_fails_the_verification(prepared: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(counting.LAUNCHES, "throughput", 7)
    task = prepared("launch.gpu_numba", mode="throughput")
    assert task.verify().passed
    monkeypatch.setattr(counting, "range", lambda count: range(count - 1), raising=False)
    outcome = task.verify()
    assert not outcome.passed
    assert (outcome.expected, outcome.found) == ("7", "6")
