"""The stages of a GPU's day: what each of them runs, and for how long at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelbench.gpu_day.process import Command
from accelbench.profiling import PROJECT
from accelbench.profiling.child import module_command
from accelbench.profiling.devices import is_installed

"""This folder holds the packages, and in a checkout the tests."""
GPU_TESTS = PROJECT / "tests" / "gpu"
SANITIZER_TESTS = "tests/gpu/test_sanitizer.py"
NO_TESTS_CHOSEN = 5  # pytest's exit status
BACKENDS = ("jax", "torch", "tensorflow")


class StageUnavailable(Exception):
    """A stage that cannot run on this machine, with the reason; not a failure."""


@dataclass(frozen=True)
class DayPlan:
    """Output directory of a day, and the suites chosen for its stages."""

    out: Path
    suites: Mapping[str, str] = field(default_factory=dict)
    """The names or files of suites, by their stages."""

    def suite(self, stage: str) -> str:
        return self.suites.get(stage, SUITES[stage])


@dataclass(frozen=True)
class DayStage:
    """Stage of the day."""

    name: str
    what: str
    seconds: float
    """The wall time in seconds that it gets at most."""
    commands: Callable[[DayPlan], Sequence[Command]]
    """The commands share evenly what time the ones before them left."""


def python(*words: str | Path, folder: Path | None = None, fine: tuple[int, ...] = (0,)) -> Command:
    """Return a Python module's command line, by this interpreter."""
    return Command(module_command(*map(str, words)), folder or Path.cwd(), fine)


def probe(plan: DayPlan) -> list[Command]:
    return [python("accelbench.gpu_day.system_facts"), python("accelbench", "doctor")]


def tests(plan: DayPlan) -> list[Command]:
    side_by_side = ["--numprocesses", "auto", "--dist", "worksteal"] if is_installed("xdist") else []
    return [
        pytest("gpu and not alone", "tests/gpu", "--ignore", SANITIZER_TESTS, *side_by_side),
        pytest("gpu and alone", "tests/gpu"),
    ]


def sanitizer(plan: DayPlan) -> list[Command]:
    side_by_side = ["--numprocesses", "2"] if is_installed("xdist") else []
    return [pytest("gpu", SANITIZER_TESTS, *side_by_side)]


def pytest(marked: str, *words: str) -> Command:
    if not GPU_TESTS.is_dir():
        raise StageUnavailable("the tests are not here: an image and an installation have none, a checkout has")
    if not is_installed("pytest"):
        raise StageUnavailable("pytest is not installed")
    options = ("-q", "-m", marked, "--durations", "10", "-p", "no:cacheprovider")
    return python("pytest", *options, *words, folder=PROJECT, fine=(0, NO_TESTS_CHOSEN))


def first(plan: DayPlan) -> list[Command]:
    # The suite has the ceilings in it: those of every type would take minutes by themselves.
    return [measure(plan.out / "first", "--suite", plan.suite("first"), "--no-ceilings")]


def train(plan: DayPlan) -> list[Command]:
    backends = [backend for backend in BACKENDS if is_installed(backend)]
    if not backends or not is_installed("keras"):
        raise StageUnavailable("no framework is installed: Keras, and JAX, PyTorch or TensorFlow")
    options = ("--suite", plan.suite("train"), "--trace", "--no-ceilings")
    return [measure(plan.out / f"train-{backend}", *options, "--backend", backend) for backend in backends]


def rest(plan: DayPlan) -> list[Command]:
    done = plan.out / "first"
    measured = ("--without", done) if (done / "run.json").is_file() else ()
    options = ("--suite", plan.suite("rest"), "--no-ceilings", "--max-seconds", "1", "--rounds", "1")
    return [measure(plan.out / "rest", *options, *measured)]


def measure(run: Path, *options: str | Path) -> Command:
    """Return the command that begins that run, or goes on with it."""
    begun = (run / "run.json").is_file()
    words = ("resume", run) if begun else ("run", "--device", "gpu", "--out", run, *options)
    return replace(python("accelbench", *words), run=run)


STAGES = {
    stage.name: stage
    for stage in (
        DayStage("probe", "what the machine has, and whether each library reaches the card", 90, probe),
        DayStage("tests", "every kernel's answers on the card", 240, tests),
        DayStage("first", "ceilings and the most wanted figures", 360, first),
        DayStage("train", "trainings on the installed frameworks, with traces", 480, train),
        DayStage("rest", "the other kernels", 360, rest),
        DayStage("sanitizer", "memory accesses and races, under compute-sanitizer", 270, sanitizer),
    )
}
"""The stages run in this order and take half an hour: `first` and `rest` are the twelve minutes of suite `kernels`, for
which there is one round."""
WANTED = ("probe", "first", "train", "tests", "rest", "sanitizer")
"""The order of the stages where there is less time than that: figures, verified anyway, come before the tests."""
SUITES = {"first": "gpu-first", "train": "gpu-train", "rest": "kernels"}
