"""Stages of a GPU day: commands and time limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelbench.gpu_day.process import Command
from accelbench.profiling import PROJECT
from accelbench.profiling.child import module_command
from accelbench.profiling.devices import is_installed

GPU_TESTS = PROJECT / "tests" / "gpu"
SANITIZER_TESTS = "tests/gpu/test_sanitizer.py"
NO_TESTS_CHOSEN = 5  # pytest's exit status
BACKENDS = ("jax", "torch", "tensorflow")


class StageUnavailable(Exception):
    """Stage that cannot run on this machine, with the reason; not a failure."""


@dataclass(frozen=True)
class DayPlan:
    """Output directory and suites of a GPU day."""

    out: Path
    suites: Mapping[str, str] = field(default_factory=dict)
    """Suite names or files by stage."""

    def suite(self, stage: str) -> str:
        return self.suites.get(stage, SUITES[stage])


@dataclass(frozen=True)
class DayStage:
    """Stage of a GPU day."""

    name: str
    what: str
    seconds: float
    """Time limit in seconds of wall time."""
    commands: Callable[[DayPlan], Sequence[Command]]
    """Function that returns the commands, which share the time equally."""


def python(*words: str | Path, folder: Path | None = None, fine: tuple[int, ...] = (0,)) -> Command:
    """Return the command that runs a Python module with this interpreter."""
    return Command(module_command(*map(str, words)), folder or Path.cwd(), fine)


def probe(plan: DayPlan) -> list[Command]:
    return [python("accelbench.gpu_day.system_facts"), python("accelbench", "doctor")]


def tests(plan: DayPlan) -> list[Command]:
    side_by_side = ["--numprocesses", "auto", "--dist", "worksteal"] if is_installed("xdist") else []
    return [  # the short one first: commands share the time equally, and the last one gets all that is left
        pytest("gpu and alone", "tests/gpu"),
        pytest("gpu and not alone", "tests/gpu", "--ignore", SANITIZER_TESTS, *side_by_side),
    ]


def sanitizer(plan: DayPlan) -> list[Command]:
    side_by_side = ["--numprocesses", "2"] if is_installed("xdist") else []
    return [pytest("gpu", SANITIZER_TESTS, *side_by_side)]


def pytest(markers: str, *words: str) -> Command:
    if not GPU_TESTS.is_dir():
        raise StageUnavailable("the tests are missing: they are only in a checkout, not in an image or installation")
    if not is_installed("pytest"):
        raise StageUnavailable("pytest is not installed")
    options = ("-q", "-m", markers, "--durations", "10", "-p", "no:cacheprovider")
    return python("pytest", *options, *words, folder=PROJECT, fine=(0, NO_TESTS_CHOSEN))


def first(plan: DayPlan) -> list[Command]:
    # The suite contains the ceilings it needs; ceilings of all dtypes would take minutes.
    return [measure(plan.out / "first", "--suite", plan.suite("first"), "--no-ceilings")]


def train(plan: DayPlan) -> list[Command]:
    backends = [backend for backend in BACKENDS if is_installed(backend)]
    if not backends or not is_installed("keras"):
        raise StageUnavailable("no framework is installed: install Keras, and JAX, PyTorch or TensorFlow")
    options = ("--suite", plan.suite("train"), "--trace", "--no-ceilings")
    return [measure(plan.out / f"train-{backend}", *options, "--backend", backend) for backend in backends]


def rest(plan: DayPlan) -> list[Command]:
    done = plan.out / "first"
    measured = ("--without", done) if (done / "run.json").is_file() else ()
    options = ("--suite", plan.suite("rest"), "--no-ceilings", "--max-seconds", "1", "--rounds", "1")
    return [measure(plan.out / "rest", *options, *measured)]


def measure(run: Path, *options: str | Path) -> Command:
    """Return the command that starts the run, or resumes it."""
    started = (run / "run.json").is_file()
    words = ("resume", run) if started else ("run", "--device", "gpu", "--out", run, *options)
    return replace(python("accelbench", *words), run=run)


STAGES = {
    stage.name: stage
    for stage in (
        DayStage("probe", "the machine, and a test of each library on the GPU", 90, probe),
        DayStage("tests", "results of every kernel on the GPU", 240, tests),
        DayStage("first", "ceilings and key results", 400, first),
        DayStage("train", "training workloads on the installed frameworks, with traces", 480, train),
        DayStage("rest", "the other kernels", 320, rest),
        DayStage("sanitizer", "memory accesses and races, under compute-sanitizer", 270, sanitizer),
    )
}
"""Stages in their order; they take half an hour in total. `first` and `rest` together are the suite `kernels` with one
repetition, which takes twelve minutes."""
WANTED = ("probe", "first", "train", "tests", "rest", "sanitizer")
"""Stages by priority, for a shorter budget: results, which are verified anyway, come before the tests."""
SUITES = {"first": "gpu-first", "train": "gpu-train", "rest": "kernels"}
