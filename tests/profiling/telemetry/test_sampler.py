"""Tests of telemetry: sampling of real processes, and of a GPU with a stub of the driver."""

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
from accelbench.profiling.telemetry import sensors
from accelbench.profiling.telemetry.noise import noise_flags
from accelbench.profiling.telemetry.sampler import SensorProcess, TelemetrySampler, read_cpu_time, summarize
from accelbench.profiling.telemetry.sensors import SensorReadings
from tests.conftest import environment
from tests.fixtures.processes import command_line, has_ended, wait_for
from tests.fixtures.stub_driver import run_with_driver

# Uses CPU time, then prints the CPU time of this process.
BURN = "import time\nwhile time.process_time() < 0.6: pass\nprint(time.process_time(), flush=True)"


def burn_here(seconds: float) -> float:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass
    return time.process_time() - begin


def test_own_time_includes_child_processes() -> None:
    with TelemetrySampler("cpu") as sampler:
        here = burn_here(0.4)
        child = float(subprocess.run([sys.executable, "-c", BURN], capture_output=True, check=True).stdout)
    counters = sampler.result().counters
    assert counters["cpu.own_s"] >= 0.8 * (here + child)
    assert counters["wall_s"] > 0


@pytest.mark.needs("linux")
def test_the_time_of_an_unrelated_process_is_other_time(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.touch()
    detached = 'setsid "$0" -c "$1" > "$2" &'  # not a descendant: its parent, the shell, ends at once
    with TelemetrySampler("cpu") as sampler:
        subprocess.run(["sh", "-c", detached, sys.executable, BURN, str(output)], check=True)
        while not output.read_text():
            time.sleep(0.02)
    counters = sampler.result().counters
    assert counters["cpu.other_s"] >= 0.8 * float(output.read_text())


@pytest.mark.needs("linux")
def test_other_time_of_a_process_limited_to_one_cpu_is_of_this_cpu(tmp_path: Path) -> None:
    cpus, kept = range(os.cpu_count() or 1), max(os.sched_getaffinity(0))
    output = tmp_path / "output"
    output.touch()
    unrelated = f"import os\nos.sched_setaffinity(0, {{{kept}}})\n{BURN}"
    begin = [read_cpu_time([cpu])["cpu.busy_s"] for cpu in cpus]
    with TelemetrySampler("cpu", cpus=[kept]) as sampler:
        subprocess.run(["sh", "-c", 'setsid "$0" -c "$1" > "$2" &', sys.executable, unrelated, str(output)], check=True)
        while not output.read_text():
            time.sleep(0.02)
    counters = sampler.result().counters
    earlier, *end, later = (read_cpu_time(each)["cpu.busy_s"] for each in (cpus, *([cpu] for cpu in cpus), cpus))
    assert 0.8 * float(output.read_text()) <= counters["cpu.other_s"] <= counters["wall_s"] + 0.1, "of one CPU"
    assert end[kept] - begin[kept] >= counters["cpu.other_s"] - 0.1
    assert earlier - 0.1 <= sum(end) <= later + 0.1


@pytest.mark.slow
@pytest.mark.needs("linux")
def test_threads_that_share_a_cpu_wait_for_it() -> None:
    """Of two processes on one CPU, the observed one waits for about as long as it runs."""
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


def test_an_empty_measurement_has_the_process_gauges() -> None:
    with TelemetrySampler("cpu") as sampler:
        pass
    telemetry = sampler.result()
    assert telemetry.gauges["process.rss"].minimum > 1 << 20
    assert not any(name.startswith("gpu") for name in telemetry.gauges)
    assert Telemetry.model_validate_json(telemetry.model_dump_json()) == telemetry


def test_an_exception_in_the_block_is_raised_and_the_result_is_available() -> None:
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


def test_allocated_memory_is_in_the_rss() -> None:
    with TelemetrySampler("cpu") as before:
        pass
    with TelemetrySampler("cpu") as during:
        block = bytearray(64 << 20)
        block[::4096] = b"x" * len(block[::4096])
    with TelemetrySampler("cpu") as after:
        pass
    rss = [sampler.result().gauges["process.rss"].median for sampler in (before, after)]
    assert rss[1] - rss[0] > 32 << 20
    assert during.result().counters["process.minor_faults"] > 0


# --- sensor process ---

HOLD = """
import ctypes, json
from time import perf_counter
from accelbench.profiling.telemetry.sampler import TelemetrySampler
with TelemetrySampler("gpu", interval_s=0.05) as sampler:
    begin = perf_counter()
    ctypes.PyDLL(None).usleep(600_000)  # like NVBench: in C, with the GIL held
    end = perf_counter()
print(json.dumps([end - begin, sampler.series(begin)]))
"""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("sensor", ["gpu.power", "gpu.sm_clock", "process.rss"])
def test_sensors_are_read_while_the_gil_is_held(sensor: str) -> None:
    held, series = json.loads(run_with_driver(HOLD))
    assert any(0.1 * held < when < 0.9 * held for when, _ in series[sensor])


ABANDON = """
import os, signal, subprocess, sys, time
from accelbench.profiling.telemetry.sampler import TelemetrySampler
sampler = TelemetrySampler("cpu", interval_s=0.05)
if sys.argv[1] == "begun":
    sampler.__enter__()
print(sampler._sensors._process.pid, flush=True)
if os.fork() == 0:  # the child inherits the pipes and keeps them open
    os.close(1)
    time.sleep(60)
print(0, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.needs("linux")
@pytest.mark.parametrize("stage", ["begun", "not begun"])
def test_the_sensor_process_ends_when_the_measured_process_is_killed(stage: str) -> None:
    command = [sys.executable, "-c", ABANDON, stage]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as measured:
        assert measured.stdout is not None
        sensors = int(measured.stdout.readline())
        measured.wait()
        try:
            wait_for(lambda: has_ended(sensors))
        finally:
            os.killpg(measured.pid, signal.SIGKILL)


def sensors_processes() -> list[psutil.Process]:
    program = "accelbench.profiling.telemetry.sensors"
    return [child for child in psutil.Process().children() if program in command_line(child)]


def test_a_killed_sensor_process_is_reported_and_counters_remain() -> None:
    with TelemetrySampler("cpu") as sampler:
        (sensors,) = sensors_processes()
        sensors.kill()
        while sensors.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    telemetry = sampler.result()
    (missing,) = telemetry.missing
    assert missing.startswith("all sensors: ")
    assert missing.endswith("exit status -9")
    assert telemetry.gauges == {}
    assert telemetry.counters["wall_s"] > 0
    assert sampler.series(0.0) == {}


def test_a_sensor_process_that_cannot_be_started_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with TelemetrySampler("cpu") as sampler:
        pass
    (missing,) = sampler.result().missing
    assert missing.startswith("all sensors: ")


def test_closing_an_unused_sampler_ends_its_process() -> None:
    sampler = TelemetrySampler("cpu")
    assert len(sensors_processes()) == 1
    sampler.close()
    sampler.close()
    assert sensors_processes() == []


@pytest.mark.needs("linux")
def test_the_sensor_process_runs_on_the_given_cpus() -> None:
    place = max(os.sched_getaffinity(0))
    with TelemetrySampler("cpu", place=[place]):
        (sensors,) = sensors_processes()
        assert sensors.cpu_affinity() == [place]


def test_the_sensor_process_imports_no_heavy_library() -> None:
    script = "import sys; from accelbench.profiling.telemetry.sensors import *; "
    script += "Sensors(SensorRequest(1, 1, device='gpu', cards=['0'])); print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout.split()
    )
    assert {"psutil", "pynvml"} <= loaded
    assert not {"numpy", "pydantic", "accelbench.profiling.records.record"} & loaded


# --- GPU sensors, with a stub of the driver ---

SAMPLE = """
import time
from accelbench.profiling.telemetry.sampler import TelemetrySampler
with TelemetrySampler("gpu", interval_s=0.02) as sampler:
    time.sleep(0.5)
print(sampler.result().model_dump_json())
"""


@pytest.mark.needs("gcc")
def test_sensors_energy_and_throttling_of_a_gpu() -> None:
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
    assert telemetry.counters["gpu.energy_j"] == 25  # the difference of the first and last reading
    assert telemetry.throttle_reasons == ["power limit"]  # idle is not a throttle reason
    flags = noise_flags(telemetry, telemetry.counters["wall_s"], 10_000)
    assert "GPU shared by 2 processes" in flags
    assert not any("power limit" in flag for flag in flags)


SHARED = """
import json, time
from accelbench.profiling.telemetry.sampler import TelemetrySampler
begin = time.perf_counter()
with TelemetrySampler("gpu", interval_s=0.02) as sampler:
    time.sleep(0.3)
end = time.perf_counter()
names = [name for name in sampler.result().gauges if name == "gpu.utilization_by_others"]
print(json.dumps([names, [[first - begin, last - end] for first, last in sampler.shared_times()]]))
"""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("settings", "is_known", "is_shared"),
    [({"STUB_OTHERS": "40"}, True, True), ({"STUB_OTHERS": "0"}, True, False), ({}, False, True)],
    ids=["another process runs kernels", "another process is idle", "the own process is not listed"],
)
def test_the_times_in_which_another_process_used_the_card(
    settings: dict[str, str], is_known: bool, is_shared: bool
) -> None:
    names, times = json.loads(run_with_driver(SHARED, **settings))
    assert bool(names) == is_known
    assert bool(times) == is_shared
    assert all(first >= 0 >= last for first, last in times)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("clients", "shared"), [(1, False), (2, True)])
def test_an_mps_server_is_no_other_process_but_a_second_client_is(clients: int, shared: bool) -> None:
    telemetry = Telemetry.model_validate(json.loads(run_with_driver(SAMPLE, STUB_MPS=str(clients), STUB_OTHERS="40")))
    assert telemetry.gauges["gpu.processes"].median == clients
    flags = noise_flags(telemetry, telemetry.counters["wall_s"], 10_000)
    assert any("shared" in flag for flag in flags) == shared
    by_others = telemetry.gauges.get("gpu.utilization_by_others")
    assert by_others is None if shared else by_others and by_others.maximum == 0


TWO = {"STUB_COUNT": "2", "STUB_NVML_CARDS": "2"}


def sampled(*cards: int, **settings: str) -> Telemetry:
    script = SAMPLE.replace("interval_s=0.02", f"interval_s=0.02, cards={cards}")
    return Telemetry.model_validate(json.loads(run_with_driver(script, **settings)))


@pytest.mark.needs("gcc")
def test_several_cards_have_separate_gauges_and_summed_energy() -> None:
    telemetry = sampled(0, 1, **TWO)
    power = {name: gauge.median for name, gauge in telemetry.gauges.items() if "power" in name}
    assert power == {"gpu.power.0": 650.5, "gpu.power.1": 651.5}
    assert telemetry.counters["gpu.energy_j"] == 25 + 50
    assert telemetry.throttle_reasons == ["power limit", "temperature (software)"]
    flags = noise_flags(telemetry, telemetry.counters["wall_s"], 10_000)
    assert "GPU 1 shared by 2 processes" in flags


@pytest.mark.needs("gcc")
def test_an_unused_visible_card_is_not_read() -> None:
    telemetry = sampled(0, **TWO)
    assert telemetry.gauges["gpu.power"].median == 650.5
    assert telemetry.counters["gpu.energy_j"] == 25
    assert sampled(1, **TWO).gauges["gpu.power"].median == 651.5


@pytest.mark.needs("gcc")
def test_the_energy_is_unknown_if_a_card_is_not_in_nvml() -> None:
    telemetry = sampled(0, 1, STUB_COUNT="2")
    assert "gpu.power.0" in telemetry.gauges
    assert "gpu.energy_j" not in telemetry.counters
    (missing,) = telemetry.missing
    assert missing.startswith("sensors of the GPU at 0000:41:00.0: ")


@pytest.mark.needs("gcc")
def test_a_partitioned_card_has_no_power_or_energy() -> None:
    telemetry = sampled(0, STUB_MIG="1")
    assert "gpu.sm_clock" in telemetry.gauges
    assert "gpu.power" not in telemetry.gauges
    assert "gpu.energy_j" not in telemetry.counters
    (missing,) = telemetry.missing
    assert "MIG" in missing


@pytest.mark.needs("gcc")
def test_time_series_of_gpu_sensors() -> None:
    script = SAMPLE.replace("sampler.result().model_dump_json()", "json.dumps(sampler.series(begin))")
    found = json.loads(run_with_driver("import json, time\nbegin = time.perf_counter()\n" + script))
    for name, value in (("gpu.power", 650.5), ("gpu.sm_clock", 1755)):
        assert {read for _, read in found[name]} == {value}
        times = [when for when, _ in found[name]]
        assert times == sorted(times)
        assert times[0] >= 0


def test_a_long_time_series_is_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [float(second) for second in range(7)]
    readings = SensorReadings(
        when=[10 + second for second in seconds],
        samples=[
            [("process.rss", second, "B"), ("cpu.load.0", 20.0, "%"), ("cpu.load.1", 40.0, "%")] for second in seconds
        ],
    )
    with TelemetrySampler("cpu") as sampler:
        monkeypatch.setattr(SensorProcess, "end", lambda process: process.close() or readings)
    assert sampler.series(since=10) == {
        "process.rss": [(second, second) for second in seconds],
        "cpu.load": [(second, 30.0) for second in seconds],
    }
    monkeypatch.setattr("accelbench.profiling.telemetry.sampler.MAX_POINTS", 3)
    assert sampler.series(since=10)["process.rss"] == [(0, 0), (3, 3), (6, 6)], "readings, not means"


@pytest.mark.needs("gcc")
def test_an_unreadable_gpu_has_no_gauges() -> None:
    telemetry = Telemetry.model_validate(json.loads(run_with_driver(SAMPLE, STUB_CUINIT="100")))
    assert not any(name.startswith("gpu") for name in [*telemetry.gauges, *telemetry.counters])
    assert "process.rss" in telemetry.gauges


def test_an_unreadable_card_has_no_throttle_reasons() -> None:
    assert read_throttle_reasons(None) == []


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_a_gauge_is_minimum_median_and_maximum(values: list[float]) -> None:
    gauge = summarize([[("x", value, "W")] for value in values])["x"]
    assert (gauge.minimum, gauge.maximum) == (min(values), max(values))
    assert sum(value <= gauge.median for value in values) >= len(values) / 2
    assert sum(value >= gauge.median for value in values) >= len(values) / 2


STOPPED = """
import os, subprocess, sys, time
from accelbench.profiling.telemetry.noise import noise_flags
from accelbench.profiling.telemetry.sampler import TelemetrySampler
stop = f"sleep 0.3; kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"
with TelemetrySampler("cpu", interval_s=0.1) as sampler:
    stopper = subprocess.Popen(["sh", "-c", stop])
    stopper.wait()
    time.sleep(0.3)
found = sampler.result()
print(found.counters["process.stopped_s"], *noise_flags(found, found.counters["wall_s"], 2), sep="\\n")
"""


@pytest.mark.needs("linux")
def test_a_process_that_was_stopped_is_flagged_with_the_time() -> None:
    process = subprocess.run([sys.executable, "-c", STOPPED], env=environment(), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    seconds, *flags = process.stdout.splitlines()
    assert float(seconds) >= 1.0
    assert f"the process was stopped for about {float(seconds):.1f} s" in flags


@pytest.mark.needs("linux")
@pytest.mark.parametrize(("ran", "stopped_s"), [(0.0, 9.0), (8.0, 0.0)], ids=["with the process", "alone"])
def test_a_gap_in_the_samples_is_a_stop_only_if_the_process_stood_still(ran: float, stopped_s: float) -> None:
    watched = sensors.Sensors(sensors.SensorRequest(os.getpid(), 0.5))
    watched.begin()
    watched._sampled -= 9.0
    watched._ran -= ran
    watched.sample()
    assert watched.end().stopped_s == pytest.approx(stopped_s, abs=1.0)


@pytest.mark.parametrize(
    ("first", "last", "seconds", "joules"),
    [(5.0, 30.0, 2.0, 25.0), (30.0, 5.0, 2.0, None), (5.0, 5.0, 2.0, None), (0.0, 1.8e16, 2.0, None)],
)
def test_an_energy_that_is_impossible_is_unknown(
    first: float, last: float, seconds: float, joules: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneCard:
        readings = iter([first, last])

        def energy(self) -> float:
            return next(self.readings)

        def read(self) -> list[object]:
            return []

        def throttle_reasons(self) -> list[str]:
            return []

    monkeypatch.setattr(sensors, "_open_cards", lambda request, missing: OneCard())
    watched = sensors.Sensors(sensors.SensorRequest(os.getpid(), 0.5, cards=["0"]))
    clock = iter([100.0, 100.0, *[100.0 + seconds] * 9])
    monkeypatch.setattr(sensors, "perf_counter", lambda: next(clock))
    watched.begin()
    found = watched.end()
    assert found.energy_j == joules
    assert bool(found.missing) == (joules is None)
