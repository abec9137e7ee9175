"""Profiles for tests of what reads them: a training that was traced and sampled, with all that can be kept."""

from __future__ import annotations

from typing import Any

from profiling.bottleneck import judge
from profiling.host.counters import HostCounters
from profiling.host.profiler import HostProfile
from profiling.host.pyspy import WINDOW_KINDS
from profiling.host.rules import CATEGORIES
from profiling.host.sampling import Sampling, Window
from profiling.host.shares import Shares, ThreadShare
from profiling.record import Profile
from profiling.trace.capture import Capture
from profiling.trace.model import Breakdown, Operation, TraceAnalysis, XprofSteps


def trace_analysis(**changes: Any) -> TraceAnalysis:
    """A GPU's trace of a step that waits for its input, and has something of every part."""
    fields: dict[str, Any] = {
        "file": "plugins/profile/2026_03_14/node.xplane.pb",
        "size": 48_300_000,
        "breakdown": Breakdown(
            steps=50,
            step_s=0.0210,
            parts={
                "kernel": 0.0061,
                "collective": 0.0004,
                "host_to_device": 0.0012,
                "device_to_host": 0.0002,
                "compile": 0.0001,
                "input_wait": 0.0104,
                "idle": 0.0009,
                "host": 0.0017,
            },
        ),
        "xprof_steps": XprofSteps(
            steps=48,
            step_s=0.0212,
            parts={
                "device compute": 0.0063,
                "device to device": 0.0,
                "device collectives": 0.0004,
                "host compute": 0.0011,
                "kernel launch": 0.0007,
                "input": 0.0118,
                "output": 0.0002,
                "compilation": 0.0001,
                "all others": 0.0006,
            },
        ),
        "operations": [
            Operation(name=f"sm90_xmma_fprop_{n}", kind="Conv2D", where="device", occurrences=50, self_s=0.1 / (n + 1))
            for n in range(14)
        ]
        + [Operation(name="ParseExample", where="host", occurrences=3200, self_s=0.61)],
        "operations_by": "xprof",
        "input_wait_share": 0.495,
        "input_verdict": "highly input-bound: 49.5% of the step waits for input",
        "xprof_verdict": "Your program is HIGHLY input-bound.",
        "memory_peak_bytes": 3 << 30,
        "devices": ["/device:GPU:0"],
        "device_events": 41_000,
        "xprof_version": "2.24.2",
    }
    return TraceAnalysis(**fields | changes)


def host_profile(**changes: Any) -> HostProfile:
    """A host of 16 cores, one of whose counters cannot be read."""
    nothing: Shares = dict.fromkeys(CATEGORIES, 0.0)
    windows = [
        Window(kind=kind, begin_s=n, end_s=n + 2, rate_hz=10, looks=20, cost_s=0.03)
        for n, kind in enumerate(WINDOW_KINDS)
    ]
    fields: dict[str, Any] = {
        "step_thread": nothing | {"input": 0.52, "dispatch": 0.06, "runtime": 0.08, "waiting": 0.34},
        "cpu": nothing | {"input": 0.81, "dispatch": 0.05, "runtime": 0.14},
        "data_makers": 2.6,
        "gil_held": 0.71,
        "gil_holders": {"MainThread": 0.11, "Thread-4 (worker)": 0.6},
        "threads": [
            ThreadShare(name=f"worker {n}", threads=4, cpu_s=9.0 / (n + 1), wait_s=0.2, shares=nothing | {"input": 1.0})
            for n in range(15)
        ],
        "counters": HostCounters(
            elapsed_s=20.1,
            core_utilisation={core: 1.0 - core / 20 for core in range(16)},
            cpu_s=66.0,
            run_queue_wait_s=4.1,
            voluntary_switches=81_000,
            involuntary_switches=2_300,
            throttled_periods=7,
            throttled_s=0.4,
            minor_faults=91_000,
            major_faults=0,
            rss_peak_bytes=3 << 30,
            disk_read_bytes=1 << 30,
            disk_written_bytes=0,
            network_received_bytes=10_000,
            network_sent_bytes=9_000,
            unknown={"steal_s": "the kernel counts no steal time"},
        ),
        "sampling": Sampling(budget=0.03, elapsed_s=20.0, windows=windows, missing=["native frames: too dear"]),
        "files": {"speedscope": "host.speedscope.json", "flamegraph": "host.svg"},
        "missing": ["native frames: too dear"],
    }
    return HostProfile(**fields | changes)


def profile(**changes: Any) -> Profile:
    """Of a training that was traced and sampled, with all that was kept."""
    fields: dict[str, Any] = {
        "bottleneck": judge({"input": 0.5, "device": 0.3, "dispatch": 0.13, "transfer": 0.07}, source="trace"),
        "capture": Capture(file="plugins/profile/2026_03_14/node.xplane.pb", first_step=3, steps=50),
        "trace": trace_analysis(),
        "host": host_profile(),
        "trace_folder": "traces/001-cnn-mnist",
        "host_folder": "host/001-cnn-mnist",
        "elapsed_s": 26.5,
    }
    return Profile(**fields | changes)
