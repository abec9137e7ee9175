"""Telemetry: what the sampler says of real processes, and of a GPU that a stub of the driver shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.machine.nvidia.nvml import read_throttle_reasons
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.telemetry.noise import noise_flags
from accelbench.profiling.telemetry.sampler import TelemetrySampler, read_cpu_time, summarize
from tests.fixtures.processes import command_line
from tests.fixtures.stub_driver import run_with_driver

# Burns CPU time, then says how much of it this process has used.
BURN = "import time\nwhile time.process_time() < 0.6: pass\nprint(time.process_time(), flush=True)"


def burn_here(seconds: float) -> float:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass
    return time.process_time() - begin


def test_own_time_is_that_of_the_process_and_of_its_children() -> None:
    with TelemetrySampler("cpu") as sampler:
        here = burn_here(0.4)
        child = float(subprocess.run([sys.executable, "-c", BURN], capture_output=True, check=True).stdout)
    counters = sampler.result().counters
    assert counters["cpu.own_s"] >= 0.8 * (here + child)
    assert counters["wall_s"] > 0


@pytest.mark.needs("linux")
def test_a_strangers_time_is_that_of_others(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.touch()
    detached = 'setsid "$0" -c "$1" > "$2" &'  # its parent, the shell, ends at once: no descendant of ours
    with TelemetrySampler("cpu") as sampler:
        subprocess.run(["sh", "-c", detached, sys.executable, BURN, str(said)], check=True)
        while not said.read_text():
            time.sleep(0.02)
    counters = sampler.result().counters
    assert counters["cpu.other_s"] >= 0.8 * float(said.read_text())


@pytest.mark.needs("linux")
def test_of_a_process_kept_to_one_cpu_others_are_those_who_ran_there(tmp_path: Path) -> None:
    cpus, kept = range(os.cpu_count() or 1), max(os.sched_getaffinity(0))
    said = tmp_path / "said"
    said.touch()
    stranger = f"import os\nos.sched_setaffinity(0, {{{kept}}})\n{BURN}"
    begin = [read_cpu_time([cpu])["cpu.busy_s"] for cpu in cpus]
    with TelemetrySampler("cpu", cpus=[kept]) as sampler:
        subprocess.run(["sh", "-c", 'setsid "$0" -c "$1" > "$2" &', sys.executable, stranger, str(said)], check=True)
        while not said.read_text():
            time.sleep(0.02)
    counters, end = sampler.result().counters, [read_cpu_time([cpu])["cpu.busy_s"] for cpu in cpus]
    assert 0.8 * float(said.read_text()) <= counters["cpu.other_s"] <= counters["wall_s"] + 0.1, "of one CPU"
    assert end[kept] - begin[kept] >= counters["cpu.other_s"] - 0.1
    assert sum(end) == pytest.approx(read_cpu_time(cpus)["cpu.busy_s"], abs=0.5)


@pytest.mark.slow
@pytest.mark.needs("linux")
def test_threads_that_share_a_cpu_wait_for_it() -> None:
    """Two processes on one CPU: the one observed waits for about as long as it runs."""
    cpu = min(os.sched_getaffinity(0))
    script = f"""
import os, subprocess, sys
os.sched_setaffinity(0, [{cpu}])
from accelbench.profiling.telemetry.sampler import TelemetrySampler
from tests.profiling.telemetry.test_sampler import BURN, burn_here
rival = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE)
with TelemetrySampler("cpu") as sampler:
    burn_here(0.6)
    rival.communicate()
result = sampler.result()
print(result.counters["process.run_queue_wait_s"])
print(*result.gauges)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    waited, gauges = done.stdout.splitlines()
    assert float(waited) > 0.1
    loads = [name for name in gauges.split() if name.startswith("cpu.load.")]
    assert loads == [f"cpu.load.{cpu}"]  # only the CPUs that the process may use


def test_a_measurement_of_no_length_has_the_gauges_that_need_none() -> None:
    with TelemetrySampler("cpu") as sampler:
        pass
    telemetry = sampler.result()
    assert telemetry.gauges["process.rss"].minimum > 1 << 20
    assert not any(name.startswith("gpu") for name in telemetry.gauges)
    assert Telemetry.model_validate_json(telemetry.model_dump_json()) == telemetry


def test_an_error_inside_the_block_gets_out_and_leaves_a_result() -> None:
    sampler = TelemetrySampler("cpu")
    with pytest.raises(ZeroDivisionError), sampler:
        raise ZeroDivisionError
    assert sampler.result().counters["wall_s"] > 0


def test_loads_are_percentages() -> None:
    with TelemetrySampler("cpu", interval_s=0.15) as sampler:
        burn_here(0.5)
    loads = {name: gauge for name, gauge in sampler.result().gauges.items() if name.startswith("cpu.load.")}
    assert loads
    assert all(0 <= gauge.minimum <= gauge.median <= gauge.maximum <= 100 for gauge in loads.values())
    assert {gauge.unit for gauge in loads.values()} == {"%"}


def test_memory_that_is_taken_shows() -> None:
    with TelemetrySampler("cpu", interval_s=0.02) as sampler:
        time.sleep(0.1)
        block = bytearray(64 << 20)
        block[::4096] = b"x" * len(block[::4096])
        time.sleep(0.2)
    rss = sampler.result().gauges["process.rss"]
    assert rss.maximum - rss.minimum > 32 << 20
    assert sampler.result().counters["process.minor_faults"] > 0


# --- the process that reads the sensors ---

HOLD = """
import ctypes, json
from time import perf_counter
from accelbench.profiling.telemetry.sampler import TelemetrySampler
with TelemetrySampler("gpu", interval_s=0.05) as sampler:
    begin = perf_counter()
    ctypes.PyDLL(None).usleep(600_000)  # as NVBench measures: in C, and without letting go of Python's lock
    end = perf_counter()
print(json.dumps([end - begin, sampler.series(begin)]))
"""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("sensor", ["gpu.power", "gpu.sm_clock", "process.rss"])
def test_sensors_are_read_while_pythons_lock_is_held(sensor: str) -> None:
    held, series = json.loads(run_with_driver(HOLD))
    inside = [when for when, _ in series[sensor] if 0.1 * held < when < 0.9 * held]
    assert len(inside) >= 3


ABANDON = """
import os, signal, subprocess, sys, time
from accelbench.profiling.telemetry.sampler import TelemetrySampler
sampler = TelemetrySampler("cpu", interval_s=0.05)
if sys.argv[1] == "begun":
    sampler.__enter__()
print(sampler._sensors._process.pid, flush=True)
if os.fork() == 0:  # it inherits the pipes, and holds them open
    os.close(1)
    time.sleep(60)
print(0, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.needs("linux")
@pytest.mark.parametrize("stage", ["begun", "not begun"])
def test_the_sensors_process_ends_with_the_measured_one_however_that_ends(stage: str) -> None:
    command = [sys.executable, "-c", ABANDON, stage]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as measured:
        assert measured.stdout is not None
        sensors = int(measured.stdout.readline())
        measured.wait(30)
        try:
            deadline = time.monotonic() + 30
            while psutil.pid_exists(sensors) and psutil.Process(sensors).status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline, "it outlives the process that it watches"
                time.sleep(0.05)
        finally:
            os.killpg(measured.pid, signal.SIGKILL)


def sensors_processes() -> list[psutil.Process]:
    program = "accelbench.profiling.telemetry.sensors"
    return [child for child in psutil.Process().children() if program in command_line(child)]


def test_a_sensors_process_that_dies_costs_the_sensors_and_says_so() -> None:
    with TelemetrySampler("cpu") as sampler:
        (sensors,) = sensors_processes()
        sensors.kill()
        while sensors.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    telemetry = sampler.result()
    assert telemetry.missing == ["all sensors: the process that reads them ended: exit status -9"]
    assert telemetry.gauges == {}
    assert telemetry.counters["wall_s"] > 0
    assert sampler.series(0.0) == {}


def test_a_sensors_process_that_cannot_be_started_costs_the_sensors_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with TelemetrySampler("cpu") as sampler:
        pass
    (missing,) = sampler.result().missing
    assert missing.startswith("all sensors: the process that reads them cannot be started: ")


def test_a_sampler_that_is_closed_unused_leaves_no_process() -> None:
    sampler = TelemetrySampler("cpu")
    assert len(sensors_processes()) == 1
    sampler.close()
    sampler.close()
    assert sensors_processes() == []


@pytest.mark.needs("linux")
def test_the_sensors_are_read_on_the_cpus_that_the_measurement_leaves_free() -> None:
    place = max(os.sched_getaffinity(0))
    with TelemetrySampler("cpu", place=[place]):
        (sensors,) = sensors_processes()
        assert sensors.cpu_affinity() == [place]


def test_what_reads_the_sensors_imports_no_heavy_library() -> None:
    script = "import sys; from accelbench.profiling.telemetry.sensors import *; "
    script += "Sensors(SensorRequest(1, 1, device='gpu', cards=['0'])); print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()
    )
    assert {"psutil", "pynvml"} <= loaded
    assert not {"numpy", "pydantic", "accelbench.profiling.records.record"} & loaded


# --- the GPU, as a stub of the driver shows it ---

SAMPLE = """
import time
from accelbench.profiling.telemetry.sampler import TelemetrySampler
with TelemetrySampler("gpu", interval_s=0.02) as sampler:
    time.sleep(0.2)
print(sampler.result().model_dump_json())
"""


@pytest.mark.needs("gcc")
def test_a_gpu_is_sampled_with_its_energy_and_its_throttling() -> None:
    telemetry = Telemetry.model_validate(json.loads(run_with_driver(SAMPLE)))
    read = {name: (gauge.median, gauge.unit) for name, gauge in telemetry.gauges.items() if name.startswith("gpu.")}
    assert read == {
        "gpu.sm_clock": (1755, "MHz"),
        "gpu.memory_clock": (2619, "MHz"),
        "gpu.power": (650.5, "W"),
        "gpu.temperature": (61, "°C"),
        "gpu.utilization": (97, "%"),
        "gpu.processes": (2, ""),
    }
    assert telemetry.counters["gpu.energy_j"] == 25  # read at both ends and nowhere between
    assert telemetry.throttle_reasons == ["power limit"]  # that the card was idle once is no throttling
    flags = noise_flags(telemetry, telemetry.counters["wall_s"], 10_000)
    assert "GPU throttled for 100% of the time: power limit" in flags
    assert "GPU shared: 2 processes held a context on it" in flags


TWO = {"STUB_COUNT": "2", "STUB_NVML_CARDS": "2"}


def sampled(cards: int, **settings: str) -> Telemetry:
    script = SAMPLE.replace("interval_s=0.02", f"interval_s=0.02, cards={cards}")
    return Telemetry.model_validate(json.loads(run_with_driver(script, **settings)))


@pytest.mark.needs("gcc")
def test_of_several_cards_each_is_read_and_their_energy_is_added_up() -> None:
    telemetry = sampled(2, **TWO)
    power = {name: gauge.median for name, gauge in telemetry.gauges.items() if "power" in name}
    assert power == {"gpu.power.0": 650.5, "gpu.power.1": 651.5}
    assert telemetry.counters["gpu.energy_j"] == 25 + 50
    assert telemetry.throttle_reasons == ["power limit", "temperature (software)"]
    flags = noise_flags(telemetry, telemetry.counters["wall_s"], 10_000)
    assert "GPU 1 shared: 2 processes held a context on it" in flags


@pytest.mark.needs("gcc")
def test_a_card_that_is_visible_and_not_used_is_not_read() -> None:
    telemetry = sampled(1, **TWO)
    assert telemetry.gauges["gpu.power"].median == 650.5
    assert telemetry.counters["gpu.energy_j"] == 25


@pytest.mark.needs("gcc")
def test_the_energy_of_cards_of_which_one_does_not_answer_is_unknown_and_says_why() -> None:
    telemetry = sampled(2, STUB_COUNT="2")
    assert "gpu.power.0" in telemetry.gauges
    assert "gpu.energy_j" not in telemetry.counters
    assert telemetry.missing == ["sensors of the GPU at 0000:41:00.0: NVML does not answer for it"]


@pytest.mark.needs("gcc")
def test_the_power_of_a_divided_card_is_not_taken_for_that_of_a_part() -> None:
    telemetry = sampled(1, STUB_MIG="1")
    assert "gpu.sm_clock" in telemetry.gauges
    assert "gpu.power" not in telemetry.gauges
    assert "gpu.energy_j" not in telemetry.counters
    assert telemetry.missing == ["GPU power and energy: the card is divided (MIG), and they are those of all its parts"]


@pytest.mark.needs("gcc")
def test_a_gpus_readings_over_time_are_kept_for_the_chart() -> None:
    script = SAMPLE.replace("sampler.result().model_dump_json()", "json.dumps(sampler.series(begin))")
    found = json.loads(run_with_driver("import json, time\nbegin = time.perf_counter()\n" + script))
    for name, value in (("gpu.power", 650.5), ("gpu.sm_clock", 1755)):
        assert len(found[name]) > 1
        assert {read for _, read in found[name]} == {value}
        moments = [when for when, _ in found[name]]
        assert moments == sorted(moments)
        assert moments[0] >= 0


def test_however_long_it_was_a_sensor_has_no_more_points_than_a_chart_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.perf_counter()
    with TelemetrySampler("cpu", interval_s=0.005) as sampler:
        burn_here(0.5)
    every = sampler.series(begin)
    assert set(every) == {"process.rss", "cpu.load"}
    assert all(0 <= load <= 100 for _, load in every["cpu.load"])
    monkeypatch.setattr("accelbench.profiling.telemetry.sampler.MOST_POINTS", 3)
    few = sampler.series(begin)["process.rss"]
    assert 1 < len(few) <= 3
    assert set(few) <= set(every["process.rss"]), "readings, no means"
    assert few[0] == every["process.rss"][0]


@pytest.mark.needs("gcc")
def test_a_gpu_that_cannot_be_read_leaves_its_gauges_out() -> None:
    telemetry = Telemetry.model_validate(json.loads(run_with_driver(SAMPLE, STUB_CUINIT="100")))
    assert not any(name.startswith("gpu") for name in [*telemetry.gauges, *telemetry.counters])
    assert "process.rss" in telemetry.gauges


def test_a_card_that_answers_nothing_has_no_reasons() -> None:
    assert read_throttle_reasons(None) == []


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_gauge_is_the_extremes_and_the_median_of_what_was_read(values: list[float]) -> None:
    gauge = summarize([[("x", value, "W")] for value in values])["x"]
    assert (gauge.minimum, gauge.maximum) == (min(values), max(values))
    assert sum(value <= gauge.median for value in values) >= len(values) / 2
    assert sum(value >= gauge.median for value in values) >= len(values) / 2
