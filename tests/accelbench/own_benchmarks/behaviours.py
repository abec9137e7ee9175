"""Benchmarks that behave and misbehave in every way the runner must survive."""

from __future__ import annotations

import os
import signal
import time

from profiling.benchmark import Metric, Point, Skip, Task, Verification, Work, benchmark
from profiling.world import DOING, world


def passing() -> Verification:
    return Verification(passed=True, method="expected value", expected="1", found="1")


def failing() -> Verification:
    return Verification(passed=False, method="expected value", expected="1", found="2")


def spin(microseconds: int) -> None:
    end = time.perf_counter_ns() + microseconds * 1000
    while time.perf_counter_ns() < end:
        pass


def crash() -> None:
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def vanish() -> None:
    print("about to vanish", flush=True)
    os._exit(7)


def hang() -> None:
    while True:
        time.sleep(0.1)


def fill_memory() -> None:
    raise MemoryError("cannot allocate 1 EB")


def break_off() -> None:
    raise ValueError("the input\nis odd")


BEHAVIOURS = {
    "crash": crash,
    "vanish": vanish,
    "hang": hang,
    "fill-memory": fill_memory,
    "raise": break_off,
}


@benchmark("behave", devices=("cpu",), axes={"us": (200,)}, figure="items", limits={"us": (1, 10_000_000)})
def behave(point: Point) -> Task:
    """Spin for some microseconds, and for longer where a test pretends that this machine is slower."""
    microseconds = point["us"]
    spun = round(microseconds * float(os.environ.get("TEST_SLOWDOWN", "1")))
    return Task(
        run=lambda: spin(spun),
        verify=passing,
        work=Work(items=microseconds, item="spins"),
        metrics=lambda seconds: {"spin": Metric(seconds, "s")},
    )


@benchmark(
    "misbehave",
    devices=("cpu",),
    axes={"how": (*BEHAVIOURS, "wrong", "skip", "well")},
    figure="time",
)
def misbehave(point: Point) -> Task:
    """Fail in the way asked for."""
    how = point["how"]
    if how == "skip":
        raise Skip("this machine lacks what it needs")
    return Task(
        run=BEHAVIOURS.get(how, lambda: spin(200)),
        verify=failing if how == "wrong" else passing,
        work=Work(),
    )


@benchmark(
    "together",
    devices=("cpu",),
    axes={"how": ("well", *BEHAVIOURS, "skip", "stop"), "who": (1,), "processes": (2,)},
    limits={"who": (0, 63)},
    figure="time",
)
def together(point: Point) -> Task:
    """Measure in several processes, of which one fails in the way asked for while the others wait for it."""
    here = world()
    how = point["how"]
    if here.rank != point["who"] or how == "well":
        if how != "well":
            hang()
        return Task(run=lambda: spin(200), verify=passing, work=Work(items=here.size, item="ranks"))
    if how == "skip":
        raise Skip("this rank lacks something")
    if how == "stop":
        DOING.at("step")
        time.sleep(2)  # that is told with the next sign of life
        os.kill(os.getpid(), signal.SIGSTOP)
    print(f"rank {here.rank} of {here.size} is about to fail", flush=True)
    BEHAVIOURS[how]()
    raise AssertionError("it did not")
