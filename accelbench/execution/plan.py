"""Plan of a run: the points to measure, from the suite and the command line."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.execution.suite import Selection, Suite, load_suite, suite_names
from accelbench.profiling import modules_of
from accelbench.profiling.benchmark import REGISTRY, Benchmark, Values
from accelbench.profiling.devices import device_kind, is_installed, kinds
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
"""Prefixes of module names before version 0.2.0."""
CEILINGS = "ceilings"
"""Suite of the ceiling benchmarks that are added to runs."""


@cache
def discover() -> dict[str, Benchmark]:
    """Import all declarations and return the benchmarks by name.

    A kernel is declared in the `__init__.py` of its package, at any depth under `kernels`; the other files of the
    package are implementations, imported when a point is prepared. Every module of `workloads` declares a training
    workload. The environment variable ACCELBENCH_PATH lists folders of further benchmarks.
    """
    _import_packages(importlib.import_module("accelbench.kernels"))
    modules_of("accelbench.workloads")
    for folder in filter(None, os.environ.get(OWN_BENCHMARKS, "").split(os.pathsep)):
        _import_own(folder)
    return dict(sorted(REGISTRY.items()))


def _import_own(folder: str) -> None:
    if not Path(folder).is_dir():
        raise UserError(f"{OWN_BENCHMARKS} lists {folder}, which is not a folder")
    sys.path.append(folder)
    for found in pkgutil.iter_modules([folder]):
        try:
            importlib.import_module(found.name)
        except Exception as error:
            what = f"cannot import {folder}/{found.name}: {error}{_advice(error, folder)}"
            raise UserError(f"{OWN_BENCHMARKS}: {what}") from error


def _advice(error: Exception, folder: str) -> str:
    """Return the current import statements if the error is an import from before version 0.2.0, else an empty text."""
    called = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    files = [file for file in called if file.startswith(os.path.abspath(folder))]
    if not files or not isinstance(error, ImportError) or not FORMER.match(error.name or ""):
        return ""
    statements = new_imports(Path(files[-1]).read_text("utf-8"))
    return f"; since version 0.2.0 it is: {'; '.join(statements)}" if statements else ""


def new_imports(source: str) -> list[str]:
    """Return the current statements for all imports from before version 0.2.0 in the source of a module.

    Public names are imported from `accelbench`. Modules that no longer exist are left out.
    """
    from accelbench import __all__ as public

    names: dict[str, dict[str, None]] = {"accelbench": {}}
    modules: dict[str, None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and FORMER.match(node.module or ""):
            for each in node.names:
                if place := "accelbench" if each.name in public else _moved(str(node.module)):
                    names.setdefault(place, {})[ast.unparse(each)] = None
        elif isinstance(node, ast.Import):
            old = [each for each in node.names if FORMER.match(each.name)]
            now = [ast.alias(name, each.asname) for each in old if (name := _moved(each.name))]
            modules |= {ast.unparse(ast.Import([each])): None for each in now}
    found = [f"from {place} import {', '.join(sorted(each))}" for place, each in names.items() if each]
    return [*found, *modules]


def _moved(module: str) -> str | None:
    """Return the current name of a module, from its name before version 0.2.0; None if it no longer exists."""
    now = re.sub(r"^accelbench\.run\b", "accelbench.execution", f"accelbench.{module.removeprefix('accelbench.')}")
    name = now.rpartition(".")[2]
    shared = (f"accelbench.kernels.lib.{place}{name}" for place in ("", "cpu.", "gpu.", "ranks."))
    return next(filter(is_installed, [now, *(shared if module.startswith("kernels.") else ())]), None)


def _import_packages(parent: ModuleType) -> None:
    for found in pkgutil.iter_modules(parent.__path__, parent.__name__ + "."):
        if found.ispkg:
            _import_packages(importlib.import_module(found.name))


def layout_of(point: Point) -> Layout:
    """Return the layout that the benchmark declares for the point (processes, devices, replicas)."""
    return discover()[point.benchmark].layout_of(point)


@dataclass(frozen=True)
class Choice:
    """Axis values requested by `--param`, for one benchmark (`matmul.n=1024`) or for all with that axis (`n=1024`)."""

    benchmark: str | None
    axis: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Parse `axis=v1,v2` or `benchmark.axis=v1,v2`; raise `UserError` for any other form."""
        name, equals, values = text.partition("=")
        benchmark, _, axis = name.rpartition(".")
        chosen = tuple(value.strip() for value in values.split(","))
        if equals and axis and not any(chosen):
            raise UserError(f"--param {text!r} has no value: write one after the =, or omit the option")
        if not equals or not axis or not all(chosen):
            raise UserError(f"--param {text!r} must have the form axis=value,value or benchmark.axis=value,value")
        return cls(benchmark or None, axis, chosen)

    def applies_to(self, benchmark: Benchmark) -> bool:
        return self.axis in benchmark.axis_names and self.benchmark in (None, benchmark.name)


def make_plan(
    names: Sequence[str],
    suite: Suite | None,
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    ranks: int = 1,
) -> list[Point]:
    """Return the points to measure, in order and without duplicates.

    A benchmark with an axis for the number of processes uses all `ranks` by default. Raises `UserError` for an unknown
    benchmark, axis or value.
    """
    benchmarks = discover()
    selections = list(_select(names, suite, device, benchmarks))
    chosen = [benchmarks[selection.name] for selection in selections]
    for choice in choices:
        if not any(choice.applies_to(benchmark) for benchmark in chosen):
            axes = sorted({axis for benchmark in chosen for axis in benchmark.axis_names})
            raise UserError(f"no selected benchmark has an axis {choice.axis!r}{suggest(choice.axis, axes)}")
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
        raise UserError(f"no selected benchmark runs on {device}: see 'accelbench list'")
    points = _valid_points(benchmarks, combinations)
    return list({str(point): point for point in points}.values())


def needed_ceilings(points: Sequence[Point]) -> list[Point]:
    """Return the ceiling points (empirical peaks) that the given points are compared with, unless already included.

    A kernel is compared with the ceiling of its declared bound: arithmetic for its dtype and cores, or memory. A
    training workload is compared with both.
    """
    benchmarks, given = discover(), {str(point) for point in points}
    needed = {kind: None for point in points for kind in _bounds(benchmarks, point)}
    return [point for point in ceilings_of(needed) if str(point) not in given]


def ceilings_of(kinds: Collection[Kind]) -> list[Point]:
    """Return the ceiling points (empirical peaks) that bound work of these kinds."""
    benchmarks, devices = discover(), dict.fromkeys(device for device, *_ in kinds)
    combinations = [
        combination
        for device in devices
        for selection in load_suite(CEILINGS).selections(device)
        for combination in _combinations(benchmarks[selection.name], selection.axes, device, (), None)
    ]
    ceilings = _valid_points(benchmarks, combinations)
    return [point for point in ceilings if any(kind in kinds for kind in _bounds(benchmarks, point))]


def _bounds(benchmarks: Mapping[str, Benchmark], point: Point) -> list[Kind]:
    """Return the kinds of ceiling that may bound the point's rate."""
    bound: Bound = benchmarks[point.benchmark].declared(point)["bound"]
    if bound.metric is None:
        return []
    metrics: tuple[Bounded, ...] = ("flops", "bytes") if point.backend else (bound.metric,)
    return [(point.device, metric, bound.dtype if metric == "flops" else None, bound.cores) for metric in metrics]


def _select(
    names: Sequence[str], suite: Suite | None, device: Device, benchmarks: Mapping[str, Benchmark]
) -> Iterable[Selection]:
    for name in names:
        if name not in benchmarks:
            raise UserError(f"unknown benchmark {name!r}{_hint(name, benchmarks)}")
    if suite is None:
        selections: Iterable[Selection] = (Selection(name=name) for name in names)
    elif suite.all:
        selections = (Selection(name=name) for name in benchmarks if not names or name in names)
    else:
        selections = (selection for selection in suite.selections(device) if not names or selection.name in names)
    for selection in selections:
        if selection.name not in benchmarks:
            raise UserError(
                f"the suite lists an unknown benchmark {selection.name!r}{suggest(selection.name, benchmarks)}"
            )
        if selection.host_cores and not benchmarks[selection.name].backends:
            raise UserError(f"the suite sets host_cores for {selection.name}, which is not a training workload")
        if device in benchmarks[selection.name].devices:
            yield selection
        elif selection.name in names:
            devices = ", ".join(benchmarks[selection.name].devices)
            raise UserError(f"{selection.name} does not run on {device} (choose {devices})")


def _hint(name: str, benchmarks: Mapping[str, Benchmark]) -> str:
    """Return a hint for an unknown benchmark name, to append to the message."""
    parts = name.split(",")
    if len(parts) > 1 and all(part in benchmarks for part in parts):
        return f": separate benchmarks by spaces, as in {' '.join(parts)}"
    if "=" in name:
        return f": to set an axis, write --param {name}"
    if name in suite_names():
        return f": it is a suite, write --suite {name}"
    return suggest(name, benchmarks)


def _valid_points(benchmarks: Mapping[str, Benchmark], combinations: Iterable[Point]) -> list[Point]:
    """Return the points of those combinations that the benchmarks do not exclude.

    Raises `UserError`, with the exclusion rules, if no combination of a benchmark is left.
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
    """Return the point without the optional axes that have their default value."""
    optional = benchmark.optional_on(combination.device)
    params = {axis: value for axis, value in combination.params.items() if value != optional.get(axis, (None,))[0]}
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
        if choice.applies_to(benchmark):
            axes[choice.axis] = tuple(_check(benchmark, choice.axis, value, device) for value in choice.values)
    return [
        Point(
            benchmark=benchmark.name,
            device=device,
            backend=_backend(benchmark, backend, device),
            params=dict(zip(axes, values, strict=True)),
        )
        for values in itertools.product(*axes.values())
    ]


def _backend(benchmark: Benchmark, requested: str | None, device: Device) -> str | None:
    if not benchmark.backends:
        return None
    if requested is not None and requested not in benchmark.backends:
        raise UserError(
            f"{benchmark.name} does not run on backend {requested!r} (choose {', '.join(benchmark.backends)})"
        )
    return requested or _first_installed(_backends_on(benchmark, device))


def _backends_on(benchmark: Benchmark, device: Device) -> tuple[str, ...]:
    """Return the backends of a training workload in the order of preference on a device."""
    first = kinds()[device][0].first_backend
    return tuple(sorted(benchmark.backends, key=lambda backend: backend != first))


def _first_installed(backends: Sequence[str]) -> str:
    """Return the first installed backend, or the first of all if none is installed."""
    return next(filter(is_installed, backends), backends[0])


def missing_frameworks(points: Iterable[Point]) -> dict[str, str]:
    """Return the missing backends of the points, each with a message that names the command to install it."""
    needed = {point.backend: point.device for point in points if point.backend and not is_installed(point.backend)}
    remedies = {backend: device_kind(device).framework_install(backend) for backend, device in needed.items()}
    return {backend: not_installed(backend, remedy) for backend, remedy in remedies.items()}


def require_any_framework(points: Iterable[Point]) -> None:
    """Raise `UserError` if all points except ceilings are training workloads without an installed framework."""
    benchmarks = discover()
    requested = [point for point in points if not benchmarks[point.benchmark].ceiling]
    missing = missing_frameworks(requested)
    if requested and all(point.backend in missing for point in requested):
        raise UserError("; ".join(missing.values()))


def refuse_impossible(points: Iterable[Point]) -> None:
    """Raise `UserError` for a point that cannot be planned, such as in a modified or foreign `run.json`."""
    benchmarks = discover()
    for point in points:
        benchmark = benchmarks[point.benchmark]
        if point.device not in benchmark.devices:
            raise UserError(f"{point}: {benchmark.name} runs on {', '.join(benchmark.devices)}")
        axes = benchmark.axes_on(point.device)
        if wrong := {*axes} - {*benchmark.optional} - {*point.params} or {*point.params} - {*axes}:
            raise UserError(f"{point}: missing or unknown axis {', '.join(sorted(wrong))}{suggest('', axes)}")
        for axis, value in point.params.items():
            if type(value) is not type(axes[axis][0]):
                raise UserError(f"{point}: {axis} has an invalid type, {type(value).__name__}")
            if value not in axes[axis]:
                _check(benchmark, axis, value, point.device)
        if point.backend not in (benchmark.backends or (None,)):
            raise UserError(f"{point}: the backend is one of {', '.join(benchmark.backends) or 'none'}")
        if point.host_cores is not None and not 1 <= point.host_cores <= MOST_VALUE:
            raise UserError(f"{point}: host_cores is 1 to {MOST_VALUE}")


def replaced_backend(points: Iterable[Point], requested: str | None) -> str | None:
    """Return a note if training workloads run on another backend because their first one is not installed."""
    if requested:
        return None
    benchmarks = discover()
    trainings = {
        (_backends_on(benchmarks[point.benchmark], point.device), point.backend) for point in points if point.backend
    }
    used = {backend for _, backend in trainings}
    for backends, backend in trainings:
        first = backends[0]
        if first not in used and backend == _first_installed(backends):
            used_instead = FRAMEWORKS.get(backend, backend)
            return f"{FRAMEWORKS.get(first, first)} is not installed: training workloads run on {used_instead}"
    return None


def _check(benchmark: Benchmark, axis: str, value: Scalar, device: Device) -> Scalar:
    """Return the value in the axis's type; raise `UserError` if the axis does not allow it."""
    choices = benchmark.choices_on(device)
    known = choices.get(axis, benchmark.axes_on(device)[axis])
    name = f"{benchmark.name}: {axis}={value}"
    one_of = f"{name}: {axis} must be one of {', '.join(map(str, known))}"
    if isinstance(known[0], str):
        if value in known:
            return value
        raise UserError(one_of + did_you_mean(str(value), map(str, known)))
    number = _integer(value)
    if number is None:
        raise UserError(f"{name}: {axis} must be an integer")
    if axis in choices and number not in known:
        raise UserError(one_of)
    low, high = benchmark.limits.get(axis, (1, None))
    if number < low:
        raise UserError(f"{name}: {axis} must be at least {low}")
    high = MOST_VALUE if high is None else high
    if number > high:
        raise UserError(f"{name}: {axis} must be at most {high}")
    return number


def _integer(value: Scalar) -> int | None:
    """Return the integer, also from a form such as 1e9; None for anything else."""
    try:
        return int(value)
    except ValueError:
        try:
            number = float(value)
        except ValueError:
            return None
        return int(number) if number.is_integer() else None
