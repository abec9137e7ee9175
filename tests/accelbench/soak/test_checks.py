"""Tests of the checks of a soak: flipped bits, unwritten results, verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.gate.hardware import HardwareClass
from accelbench.profiling.benchmark import Output, Skip, Task
from accelbench.profiling.machine import free_memory
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work
from accelbench.soak import bits, node_soak
from accelbench.soak.answer import SoakAnswer, SoakPoint, SoakSeries, SoakUnit, summary_of, verdict_of
from accelbench.soak.bits import first_difference, flip_bit
from accelbench.soak.checked_task import CheckedTask
from accelbench.soak.messages import WrongResult
from accelbench.soak.node_soak import cpus_under_load
from accelbench.soak.page import render_answer
from tests.fixtures.compare_runs import NOW, machine

TRIALS = 1000


def doubling(*, writes: bool = True, has_output: bool = True, right: bool = True) -> Task:
    """Return a task that writes twice its inputs, of three types, to its results."""
    rng = np.random.default_rng(1)
    inputs = [rng.integers(1, 1000, size).astype(dtype) for size, dtype in ((700, "f4"), (500, "f8"), (300, "i2"))]
    results = [np.zeros_like(array) for array in inputs]
    state = {"writes": True}

    def run() -> None:
        for result, array in zip(results, inputs, strict=True):
            if state["writes"]:
                np.multiply(array, 2, out=result)

    def poison() -> None:
        for result in results:
            result.fill(-1)

    def verify() -> Verification:
        run()
        state["writes"] = writes
        return Verification(passed=right, method="twice the input", found="3", expected="2")

    output = Output(read=lambda: results, poison=poison) if has_output else None
    return Task(run=run, verify=verify, work=Work(items=1), output=output)


def checked(**fields: bool) -> CheckedTask:
    found = CheckedTask(doubling(**fields))
    assert found.verify().is_right
    return found


def test_a_flipped_bit_is_found_in_each_of_a_thousand_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "AT_ONCE", 64)  # many parts
    task, rng = checked(), np.random.default_rng(2)
    sizes, places = (4, 8, 2), set()
    for _ in range(TRIALS):
        flipped: list[tuple[int, int, int]] = []

        def inject(arrays: Sequence[Any], to: list[tuple[int, int, int]] = flipped) -> None:
            to.append(flip_bit(arrays, rng))

        found = task.run(inject).difference
        ((array, element, bit),) = flipped
        assert found is not None
        assert (found.array, found.element, found.elements, found.flipped) == (array, element, 1, 1)
        assert int(found.expected, 16) ^ int(found.found, 16) == 1 << bit
        assert (found.first_byte, found.last_byte) == (element * sizes[array], (element + 1) * sizes[array] - 1)
        places.add((array, element))
    assert {array for array, _ in places} == {0, 1, 2}
    assert len(places) > TRIALS / 2
    assert task.run().is_right


def test_all_wrong_elements_are_counted_with_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "AT_ONCE", 10)
    expected = np.arange(100, dtype=np.float64).reshape(4, 25)
    found = expected.copy()
    found[0, 7], found[1, 0], found[3, 20] = 1.0, -1.0, np.nan
    difference = first_difference([expected], [found])
    assert difference is not None
    assert (difference.element, difference.elements) == (7, 3)
    assert (difference.first_byte, difference.last_byte, difference.bytes) == (56, 8 * 96 - 1, 800)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(0.0, -0.0, False), (np.nan, np.nan, True), (1.0, np.nextafter(1.0, 2.0), False), (np.inf, np.inf, True)],
)
def test_bits_and_not_values_are_compared(a: float, b: float, equal: bool) -> None:
    assert (first_difference([np.array([a])], [np.array([b])]) is None) == equal


def test_results_of_another_shape_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected"):
        first_difference([np.zeros(3)], [np.zeros(4)])
    with pytest.raises(ValueError, match="expected"):
        first_difference([np.zeros(3)], [])


def test_a_result_that_is_not_written_is_wrong() -> None:
    found = checked(writes=False).run()
    assert found.difference is not None
    assert found.difference.elements == 700


def test_a_task_without_output_is_verified_in_each_pass() -> None:
    assert checked(has_output=False).run().is_right
    wrong = CheckedTask(doubling(has_output=False, right=False)).run()
    assert wrong.verification is not None
    assert not wrong.is_right


def unit(name: str = "CPU 0", passes: int = 5, wrong: int = 0, problem: str = "", rate: float = 2e9) -> SoakUnit:
    point = SoakPoint(point="copy cpu", passes=passes, rate=rate if passes else None, unit="B/s")
    return SoakUnit(name=name, model="EPYC", passes=passes, wrong_passes=wrong, points=[point], problem=problem)


@pytest.mark.parametrize(
    ("units", "verdict"),
    [
        ([unit(), unit("CPU 1")], "right"),
        ([unit(), unit("CPU 1", wrong=1)], "wrong"),
        ([unit(), unit("CPU 1", problem="hung")], "unknown"),
        ([unit(passes=0)], "unknown"),
        ([unit(problem="killed"), unit("CPU 1", wrong=1)], "wrong"),
        ([], "unknown"),
    ],
)
def test_the_verdict_is_of_the_worst_unit(units: list[SoakUnit], verdict: str) -> None:
    assert verdict_of(units) == verdict


def test_the_summary_names_the_first_wrong_result() -> None:
    wrong = WrongResult(
        unit="CPU 7", point="copy cpu", at_s=3.0, number=4, element=6, elements=1, array=0,
        first_byte=48, last_byte=55, bytes=800, expected="0x1", found="0x3", flipped=1,
    )  # fmt: skip
    text = summary_of([unit(wrong=1)], [wrong], 60.0)
    assert "1 wrong" in text
    assert "CPU 7" in text
    assert "48–55" in text
    assert "interrupted" in summary_of([unit()], [], 60.0, 600.0)


def answer(**changes: Any) -> SoakAnswer:
    hardware = HardwareClass(machine="EPYC, 2 CPUs", cpu="EPYC", cpus=2, memory_bytes=1 << 30)
    times, values = [0.5, 1.5, 2.5], [2e9, 1.9e9, 2.1e9]
    series = [
        SoakSeries(kind="throughput", device="CPU", name="copy cpu", unit="B/s", times=times, values=values),
        SoakSeries(kind="sensor", device="CPU", name="cpu.load", unit="%", times=times, values=[100.0] * 3),
        SoakSeries(kind="sensor", device="GPU", name="gpu.temperature.0", unit="°C", times=times, values=[40, 50, 60]),
    ]
    known: dict[str, Any] = {
        "id": "x", "node": "n<1>", "verdict": "right", "exit_status": 0, "summary": "", "started": NOW,
        "planned_s": 3.0, "load_s": 3.0, "wall_s": 4.0, "interrupted": False, "hardware": hardware,
        "units": [unit(), unit("CPU 1", rate=1.8e9)], "wrong": [], "series": series,
    }  # fmt: skip
    return SoakAnswer(**known | changes)


def test_the_page_has_a_drawing_of_each_kind_of_sensor_and_loads_nothing() -> None:
    page = render_answer(answer())
    assert page.count("<svg") == 3
    assert page.count('role="img"') == 3
    assert "n&lt;1&gt;" in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert "−5.3 %" in page, "the slower CPU, relative to the median"
    assert 'id="wrong"' not in page
    bad = WrongResult(unit="CPU 1", point="copy cpu", at_s=1.0, number=2, expected="2", found="3")
    assert 'id="wrong"' in render_answer(answer(wrong=[bad]))


@pytest.mark.parametrize("what", ["gate", "soak"])
def test_the_schema_of_an_answer_is_printed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", what]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert f"{what}_version" in schema["properties"]


def test_a_soak_of_a_missing_device_ends_with_status_2(no_driver: None, tmp_path: Any) -> None:
    assert main(["soak", "--device", "gpu", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_processes_that_run_together_divide_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "available_bytes", lambda: 8000)
    monkeypatch.setattr(free_memory, "_processes", 1)
    free_memory.require_memory(4000)
    free_memory.share_machine(4)
    free_memory.require_memory(1000)
    with pytest.raises(Skip):
        free_memory.require_memory(1001)


def test_a_process_for_each_cpu_as_many_as_the_quota_grants() -> None:
    found = machine()
    cpu = found.cpu.model_copy(update={"affinity": [2, 3, 6, 7]})
    limits = found.limits.model_copy(update={"cpu_quota": 2.5})
    assert cpus_under_load(found.model_copy(update={"cpu": cpu})) == [2, 3, 6, 7]
    assert cpus_under_load(found.model_copy(update={"cpu": cpu, "limits": limits})) == [2, 3]


def test_processes_that_would_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_soak, "available_bytes", lambda: 20 * node_soak.PROCESS_BYTES)
    node_soak.require_process_memory(10)
    with pytest.raises(UserError, match="taskset"):
        node_soak.require_process_memory(11)
