"""The plan: the list of points to measure, made from suite and command line."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.execution.suite import Selection, Suite, load_suite, suite_names
from accelbench.profiling import modules_of
from accelbench.profiling.benchmark import REGISTRY, Benchmark, Values
from accelbench.profiling.devices import device_kind, is_installed
from accelbench.profiling.machine.packages import FRAMEWORKS, not_installed
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Device, Point, Scalar
from accelbench.profiling.records.work import Bound, Bounded
from accelbench.profiling.text import did_you_mean, suggest
from accelbench.settings.limits import MOST_VALUE

if TYPE_CHECKING:
    from accelbench.profiling.analysis.roofline import Kind  # which brings SciPy along

OWN_BENCHMARKS = "ACCELBENCH_PATH"
FORMER = re.compile(r"(kernels|profiling|workloads|accelbench\.run)(\.|$)")
"""The beginnings of modules' names before version 0.2.0."""
CEILINGS = "ceilings"
"""The suite that joins every run whose figures are shares of a ceiling."""


@cache
def discover() -> dict[str, Benchmark]:
    """Return every benchmark by name, found by importing what declares it.

    In `kernels` that is the `__init__.py` of every package, at any depth; the files beside it implement, and are
    imported only when a point is prepared. In `workloads` it is every module. Benchmarks of your own are found in the
    folders that the variable ACCELBENCH_PATH names.
    """
    _import_packages(importlib.import_module("accelbench.kernels"))
    modules_of("accelbench.workloads")
    for folder in filter(None, os.environ.get(OWN_BENCHMARKS, "").split(os.pathsep)):
        _import_own(folder)
    return dict(sorted(REGISTRY.items()))


def _import_own(folder: str) -> None:
    if not Path(folder).is_dir():
        raise UserError(f"{OWN_BENCHMARKS} names {folder}, which is not a folder")
    sys.path.append(folder)
    for found in pkgutil.iter_modules([folder]):
        try:
            importlib.import_module(found.name)
        except Exception as error:
            what = f"cannot import {folder}/{found.name}: {error}{_advice(error, folder)}"
            raise UserError(f"{OWN_BENCHMARKS}: {what}") from error


def _advice(error: Exception, folder: str) -> str:
    """Return the import statements that replace outdated ones (before version 0.2.0); empty for any other error."""
    called = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    files = [file for file in called if file.startswith(os.path.abspath(folder))]
    if not files or not isinstance(error, ImportError) or not FORMER.match(error.name or ""):
        return ""
    statements = new_imports(Path(files[-1]).read_text("utf-8"))
    return f"; since version 0.2.0 it is: {'; '.join(statements)}" if statements else ""


def new_imports(source: str) -> list[str]:
    """Return the statements that replace imports of before version 0.2.0, in any place of the source of a module.

    Names that `accelbench` itself has are imported from there.
    """
    from accelbench import __all__ as public

    names: dict[str, dict[str, None]] = {"accelbench": {}}
    modules: dict[str, None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and FORMER.match(node.module or ""):
            for each in node.names:
                place = "accelbench" if each.name in public else _moved(str(node.module))
                names.setdefault(place, {})[ast.unparse(each)] = None
        elif isinstance(node, ast.Import):
            old = [each for each in node.names if FORMER.match(each.name)]
            modules |= {f"import {_moved(ast.unparse(each))}": None for each in old}
    found = [f"from {place} import {', '.join(sorted(each))}" for place, each in names.items() if each]
    return [*found, *modules]


def _moved(module: str) -> str:
    """Return the present name of a module of before version 0.2.0."""
    return re.sub(r"^accelbench\.run\b", "accelbench.execution", f"accelbench.{module.removeprefix('accelbench.')}")


def _import_packages(parent: ModuleType) -> None:
    for found in pkgutil.iter_modules(parent.__path__, parent.__name__ + "."):
        if found.ispkg:
            _import_packages(importlib.import_module(found.name))


def layout_of(point: Point) -> Layout:
    """Return how the point's benchmark lays it out, as far as it is known before it is prepared."""
    return discover()[point.benchmark].layout_of(point)


@dataclass(frozen=True)
class Choice:
    """The values that `--param` asks for on an axis, of one benchmark (`matmul.n=1024`) or of all that have it."""

    benchmark: str | None
    axis: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Read `axis=v1,v2` or `benchmark.axis=v1,v2`."""
        name, equals, values = text.partition("=")
        benchmark, _, axis = name.rpartition(".")
        chosen = tuple(value.strip() for value in values.split(","))
        if equals and axis and not any(chosen):
            raise UserError(
                f"--param {text!r} gives the axis no value: write one behind the =, or leave the option out"
            )
        if not equals or not axis or not all(chosen):
            raise UserError(f"--param {text!r} is not of the form axis=value,value or benchmark.axis=value,value")
        return cls(benchmark or None, axis, chosen)

    def concerns(self, benchmark: Benchmark) -> bool:
        return self.axis in benchmark.axis_names and self.benchmark in (None, benchmark.name)


def make_plan(
    names: Sequence[str],
    suite: Suite | None,
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    ranks: int = 1,
) -> list[Point]:
    """Return the points to measure, in order and each once; `UserError` for whatever does not exist.

    Of `ranks` processes that were started together, all measure what does not say how many it takes.
    """
    benchmarks = discover()
    selections = list(_select(names, suite, device, benchmarks))
    chosen = [benchmarks[selection.name] for selection in selections]
    for choice in choices:
        if not any(choice.concerns(benchmark) for benchmark in chosen):
            axes = sorted({axis for benchmark in chosen for axis in benchmark.axis_names})
            raise UserError(f"no chosen benchmark has an axis {choice.axis!r}{suggest(choice.axis, axes)}")
    combinations = [
        replace(combination, host_cores=cores)
        for selection in selections
        for chosen_backend in ((backend,) if backend else selection.backends or (None,))
        for combination in _combinations(
            benchmarks[selection.name], selection.axes, device, choices, chosen_backend, ranks
        )
        for cores in selection.host_cores or (None,)
    ]
    if not combinations:
        raise UserError(f"nothing of this selection runs on {device}: 'accelbench list' shows what does")
    points = _existing(benchmarks, combinations)
    return list({str(point): point for point in points}.values())


def ceilings_beside(points: Sequence[Point]) -> list[Point]:
    """Return the points that set the ceilings which these are shares of, without those that are among these.

    A kernel is a share of what bounds it: arithmetic of its dtype and cores, or memory. The layers of a model are
    bounded by either, so that both are measured for it.
    """
    benchmarks, there = discover(), {str(point) for point in points}
    needed = {kind: None for point in points for kind in _bounds(benchmarks, point)}
    devices = dict.fromkeys(device for device, *_ in needed)
    combinations = [
        combination
        for device in devices
        for selection in load_suite(CEILINGS).selections(device)
        for combination in _combinations(benchmarks[selection.name], selection.axes, device, (), None)
    ]
    ceilings = [point for point in _existing(benchmarks, combinations) if str(point) not in there]
    return [point for point in ceilings if any(kind in needed for kind in _bounds(benchmarks, point))]


def _bounds(benchmarks: Mapping[str, Benchmark], point: Point) -> list[Kind]:
    """Return the kinds of work that may bound the point's rate."""
    bound: Bound = benchmarks[point.benchmark].declared(point)["bound"]
    if bound.figure is None:
        return []
    figures: tuple[Bounded, ...] = ("flops", "bytes") if point.backend else (bound.figure,)
    return [(point.device, figure, bound.dtype if figure == "flops" else None, bound.cores) for figure in figures]


def _select(
    names: Sequence[str], suite: Suite | None, device: Device, benchmarks: Mapping[str, Benchmark]
) -> Iterable[Selection]:
    for name in names:
        if name not in benchmarks:
            raise UserError(f"no benchmark is called {name!r}{_meant(name, benchmarks)}")
    if suite is None:
        selections: Iterable[Selection] = (Selection(name=name) for name in names)
    elif suite.all:
        selections = (Selection(name=name) for name in benchmarks if not names or name in names)
    else:
        selections = (selection for selection in suite.selections(device) if not names or selection.name in names)
    for selection in selections:
        if selection.name not in benchmarks:
            raise UserError(
                f"the suite names an unknown benchmark {selection.name!r}{suggest(selection.name, benchmarks)}"
            )
        if selection.host_cores and not benchmarks[selection.name].backends:
            raise UserError(f"the suite gives {selection.name} host_cores, and it is no training")
        if device in benchmarks[selection.name].devices:
            yield selection
        elif selection.name in names:
            devices = ", ".join(benchmarks[selection.name].devices)
            raise UserError(f"{selection.name} does not run on {device}: it runs on {devices}")


def _meant(name: str, benchmarks: Mapping[str, Benchmark]) -> str:
    """Return what was probably meant by a word that is no benchmark, as the end of a sentence."""
    parts = name.split(",")
    if len(parts) > 1 and all(part in benchmarks for part in parts):
        return f": put spaces between benchmarks, as in {' '.join(parts)}"
    if "=" in name:
        return f": the values of an axis are given by --param {name}"
    if name in suite_names():
        return f": it is a suite, which --suite {name} measures"
    return suggest(name, benchmarks)


def _existing(benchmarks: Mapping[str, Benchmark], combinations: Iterable[Point]) -> list[Point]:
    """Return the points that some machine can measure, of combinations with a value for all axes.

    UserError where none of a benchmark is left, with the rules of those that are not there.
    """
    points: list[Point] = []
    broken: dict[str, dict[str, None]] = {}
    for combination in combinations:
        benchmark = benchmarks[combination.benchmark]
        if rule := benchmark.exclusion(combination.device, combination.backend, combination.params):
            broken.setdefault(benchmark.name, {})[rule] = None
        else:
            points.append(_without_defaults(benchmark, combination))
    for name in broken.keys() - {point.benchmark for point in points}:
        raise UserError(f"{name}: no such combination exists: {'; '.join(broken[name])}")
    return points


def _without_defaults(benchmark: Benchmark, combination: Point) -> Point:
    """Return the point as it is named and stored: optional axes only where they are not at their default."""
    params = {
        axis: value for axis, value in combination.params.items() if value != benchmark.optional.get(axis, (None,))[0]
    }
    return replace(combination, params=params)


def _combinations(
    benchmark: Benchmark,
    overrides: Mapping[str, Values],
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    ranks: int = 1,
) -> list[Point]:
    axes = benchmark.axes_on(device)
    if (processes := benchmark.layout.get("processes")) and ranks > 1:
        axes[processes] = (ranks,)
    for axis, values in overrides.items():
        if axis not in axes:
            raise UserError(f"{benchmark.name} has no axis {axis!r}{suggest(axis, axes)}")
        axes[axis] = tuple(_check(benchmark, axis, value, device) for value in values)
    for choice in choices:
        if choice.concerns(benchmark):
            axes[choice.axis] = tuple(_check(benchmark, choice.axis, value, device) for value in choice.values)
    return [
        Point(
            benchmark=benchmark.name,
            device=device,
            backend=_backend(benchmark, backend),
            params=dict(zip(axes, values, strict=True)),
        )
        for values in itertools.product(*axes.values())
    ]


def _backend(benchmark: Benchmark, asked: str | None) -> str | None:
    if not benchmark.backends:
        return None
    if asked is not None and asked not in benchmark.backends:
        raise UserError(f"{benchmark.name} does not run on backend {asked!r}: {', '.join(benchmark.backends)}")
    return asked or _first_installed(benchmark.backends)


def _first_installed(backends: Sequence[str]) -> str:
    """Return the first backend that is here, or the first of all where none is: its points say what to install."""
    return next(filter(is_installed, backends), backends[0])


def missing_frameworks(points: Iterable[Point]) -> dict[str, str]:
    """Return each backend of the points that is not installed, with the sentence that names what installs it."""
    needed = {point.backend: point.device for point in points if point.backend and not is_installed(point.backend)}
    remedies = {backend: device_kind(device).framework_install(backend) for backend, device in needed.items()}
    return {backend: not_installed(backend, remedy) for backend, remedy in remedies.items()}


def refuse_doomed(points: Iterable[Point]) -> None:
    """Raise `UserError` where the points that are no ceilings are all trainings whose framework is not installed."""
    benchmarks = discover()
    asked = [point for point in points if not benchmarks[point.benchmark].ceiling]
    missing = missing_frameworks(asked)
    if asked and all(point.backend in missing for point in asked):
        raise UserError("; ".join(missing.values()))


def replaced_backend(points: Iterable[Point], asked: str | None) -> str | None:
    """Return the sentence for a user whose trainings run on another backend, as their first is not installed."""
    if asked:
        return None
    benchmarks = discover()
    trainings = {(benchmarks[point.benchmark].backends, point.backend) for point in points if point.backend}
    used = {backend for _, backend in trainings}
    for backends, backend in trainings:
        first = backends[0]
        if first not in used and backend == _first_installed(backends):
            there = FRAMEWORKS.get(backend, backend)
            return f"{FRAMEWORKS.get(first, first)} is not installed: trainings run on {there}"
    return None


def _check(benchmark: Benchmark, axis: str, value: Scalar, device: Device) -> Scalar:
    """Return the value in the axis's own type, if the axis admits it."""
    known = benchmark.choices.get(axis, benchmark.axes_on(device)[axis])
    name = f"{benchmark.name}: {axis}={value}"
    one_of = f"{name}: {axis} is one of {', '.join(map(str, known))}"
    if isinstance(known[0], str):
        if value in known:
            return value
        raise UserError(one_of + did_you_mean(str(value), map(str, known)))
    number = _integer(value)
    if number is None:
        raise UserError(f"{name}: {axis} is a whole number")
    if axis in benchmark.choices and number not in known:
        raise UserError(one_of)
    low, high = benchmark.limits.get(axis, (1, None))
    if number < low:
        raise UserError(f"{name}: {axis} is at least {low}")
    high = MOST_VALUE if high is None else high
    if number > high:
        raise UserError(f"{name}: {axis} is at most {high}")
    return number


def _integer(value: Scalar) -> int | None:
    """Return the whole number that is written plainly or as 1e9; None for anything else."""
    try:
        return int(value)
    except ValueError:
        try:
            number = float(value)
        except ValueError:
            return None
        return int(number) if number.is_integer() else None
