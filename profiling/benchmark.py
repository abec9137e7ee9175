"""Declaration of a benchmark: its axes, the work of one execution, and the check of its answer."""

from __future__ import annotations

import ast
import itertools
import symtable
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Device, Point, Scalar
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
from accelbench.profiling.records.work import Bound, Cores, Figure, Resource, Work

Values = tuple[Scalar, ...]
T = TypeVar("T", bound=str)
Fact: TypeAlias = T | Callable[[Point], T]
"""A fact that is the same for all points of a benchmark, or a function of the point."""
Only = Mapping[str, Mapping[Scalar, Mapping[str, Values]]]
"""The values of other axes that a value of an axis exists with, by axis and value; with others it exists nowhere."""


def axis(name: str) -> Callable[[Point], Any]:
    """Return the function that takes a point to its value of that axis."""
    return itemgetter(name)


class Skip(Exception):
    """This point cannot be measured here; the message is the reason, and it is no failure."""


@dataclass(frozen=True)
class Serving:
    """A process that measures nothing itself, and serves those that do."""

    serve: Callable[[], None]
    """The function that serves the others until they are done."""


@dataclass(frozen=True)
class Together:
    """The way in which ranks with the same task execute it together: rank 0 leads, and the others follow."""

    follow: Callable[[], object]
    """The function by which another rank does all that rank 0 does with its task, until that calls `finish`."""
    finish: Callable[[], object]
    """The function by which rank 0 tells the others that it is done."""


@dataclass(frozen=True)
class Task:
    """A prepared point, ready to run.

    `run()` does one execution; on a GPU with the device timer it is `run(stream)`, which enqueues the work on
    that CUDA stream (an integer handle) and does not wait. `verify` poisons the output, runs once on random inputs
    that this process drew, and checks the answer. `metrics` turns the median seconds of one execution into further
    figures.
    """

    run: Callable[..., object]
    verify: Callable[[], Verification]
    work: Work
    timer: Literal["device", "host"] = "device"
    """The clock: `host` times a GPU task with the host's (for launch latency), and `run()` must wait for the device."""
    metrics: Callable[[float], dict[str, Metric]] | None = None
    sample: Callable[[int], float] | None = None
    """The function that takes a sample of so many executions, begun by all who share them at once, and returns the
    seconds per execution; None where `run` is timed.
    """
    together: Together | None = None
    """The way in which several ranks execute the task together; None where one process does."""
    library: str | None = None
    """The library that does the work on the CPU, where settings of its own choose how, by the words that
    `accelbench.profiling.machine.held_back` has: `BLAS` for that of NumPy, `ONEDNN`, or a backend.
    """
    layout: Layout | None = None
    """The layout of the work over devices, where it is known only now; None for what the benchmark declares."""


@dataclass(frozen=True)
class Exchange:
    """The exchange between the replicas of a model in every step, to be looked at apart."""

    apart: Callable[[list[Any]], object]
    """The function that trains with the given callbacks and no exchange; the replicas are then no longer alike."""
    alone: Callable[[], object]
    """The function that exchanges in all ranks what one step does, and waits for its end."""
    bytes: float
    """The bytes of the gradients that each replica gives."""


@dataclass(frozen=True)
class Training:
    """A prepared training experiment, measured by its steps.

    `fit` trains with the given Keras callbacks and returns the history, one list of values per epoch and name;
    `evaluate` returns qualities on held-out data, after an epoch and at the end; `verify` checks the latter. `work` is
    that of one training step.
    """

    fit: Callable[[list[Any]], Mapping[str, list[float]]]
    evaluate: Callable[[], dict[str, Metric]]
    verify: Callable[[Mapping[str, list[float]], dict[str, Metric]], Verification]
    work: Work
    data: Data
    model: Any
    """The compiled Keras model whose steps are timed."""
    target: tuple[str, float] | None = None
    """A quality that `evaluate` returns, and the value to reach: quality is then evaluated after each epoch."""
    exchange: Exchange | None = None
    """The exchange between the replicas, where there are several."""
    qualities: tuple[Quality, ...] = ()
    """The metrics of `evaluate` that say how good the model is."""
    layout: Layout | None = None
    """The layout of the replicas; None for what the benchmark declares."""
    enough_epochs: int | None = 2
    """The epochs that `verify` needs, of which the first turn of an epoch is one: a round that measures the speed alone
    may end after them. None where it has to go on to the end."""


Prepared = Task | Training | Serving
"""The things that a benchmark may prepare for a point."""


@dataclass(frozen=True)
class Benchmark:
    """A named thing to measure; see `benchmark` for the fields."""

    name: str
    prepare: Callable[[Point], Prepared]
    devices: tuple[Device, ...]
    axes: Mapping[str, Values | Mapping[str, Values]]
    figure: Figure
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    choices: Mapping[str, Values] = field(default_factory=dict)
    optional: Mapping[str, Values] = field(default_factory=dict)
    only: Only = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    ceiling: bool = False
    time_limit_s: float = 300.0
    module: str = ""
    bound: Fact[Resource] | None = None
    unbounded: str = ""
    dtype: Fact[str] | None = None
    cores: Fact[Cores] = "all"
    layout: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    small: Mapping[str, Values] = field(default_factory=dict)
    measures: str = ""
    """The words for what is measured: the docstring of the function that was decorated."""
    vendors: tuple[str, ...] = ()
    """The vendors of the GPUs that a benchmark without a `module` runs on; empty for all."""

    def __post_init__(self) -> None:
        """Refuse a rate that nobody could put in relation: ValueError says which declaration is missing."""
        if self.figure in ("flops", "bytes") and not (self.bound or self.unbounded):
            raise ValueError(
                f"{self.name}: declare what bounds its rate of {self.figure}, bound='arithmetic' or bound='memory', "
                "or unbounded='…' with the reason why nothing does"
            )
        if self.bound and self.unbounded:
            raise ValueError(f"{self.name}: its rate has a bound or none: declare one of bound and unbounded")
        if (self.bound == "arithmetic" or callable(self.bound)) and self.dtype is None:
            raise ValueError(f"{self.name}: its rate is bounded by arithmetic: declare the dtype of that")
        unknown = {*self.layout.values(), *self.sizes} - self.axis_names
        if unknown:
            raise ValueError(f"{self.name}: its layout or sizes name axes that it lacks: {', '.join(sorted(unknown))}")

    def declared(self, point: Point) -> dict[str, Any]:
        """Return the facts of a point that are known before it is measured, by the fields of a record."""
        bound = None if self.bound is None else _fact(self.bound, point)
        dtype = None if self.dtype is None else _fact(self.dtype, point)
        return {
            "figure": self.figure,
            "ceiling": self.ceiling,
            "bound": Bound(bound, self.unbounded or None, dtype, _fact(self.cores, point)),
            "layout": self.layout_of(point),
            "sizes": dict(self.sizes),
        }

    def layout_of(self, point: Point) -> Layout:
        """Return the layout by the axes that say it, as far as it is known before the point is prepared."""
        said = {name: point.params[axis] for name, axis in self.layout.items() if axis in point.params}
        return Layout(**said, axes={axis: name for name, axis in self.layout.items()})  # type: ignore[arg-type]  # axes have checked values

    @property
    def summary(self) -> str:
        """Return the first line of what the benchmark measures."""
        return self.measures.strip().splitlines()[0]

    @property
    def axis_names(self) -> set[str]:
        """Return the names of all axes, those among them that a point need not have."""
        return {*self.axes, *self.optional}

    def axes_on(self, device: Device) -> dict[str, Values]:
        """Return the default values of each axis on that device."""
        own = {axis: v[device] if isinstance(v, Mapping) else v for axis, v in self.axes.items()}
        return own | dict(self.optional)

    def implementation(self, device: Device, params: Mapping[str, Scalar]) -> str | None:
        """Return the name of the module that implements this point; None if the declaring function itself does."""
        return self.module.format(device=device, **params) or None

    def vendors_of(self, point: Point) -> tuple[str, ...]:
        """Return the vendors of the devices that the point's implementation runs on; empty for all."""
        name = self.implementation(point.device, point.params)
        return _declared_vendors(name) if name else self.vendors

    def exclusion(self, device: Device, backend: str | None, params: Mapping[str, Scalar]) -> str | None:
        """Return the rule of `only` by which no machine measures these values of all axes; None if one may."""
        values: dict[str, Any] = {"device": device, "backend": backend, **params}
        for axis, rules in self.only.items():
            others = rules.get(values[axis], {})
            if any(values[other] not in known for other, known in others.items()):
                return in_words(axis, values[axis], others)
        return None

    def small_points(self, device: Device, seed: int = 0) -> list[Point]:
        """Return points that are quick to verify: for each implementation one per combination of `small` values.

        Every other axis has its first default value that the rules of `only` allow.
        """
        axes = self.axes_on(device) | dict(self.small)
        chosen = [axis for axis in axes if axis == "impl" or axis in self.small]
        found: dict[tuple[Scalar, ...], Point] = {}
        for values in itertools.product(*axes.values()):
            params = dict(zip(axes, values, strict=True))
            if not self.exclusion(device, None, params):
                key = tuple(params[axis] for axis in chosen)
                found.setdefault(key, Point(self.name, device, params, seed=seed))
        return list(found.values())

    def rules(self) -> list[str]:
        """Return every rule of `only`, in words."""
        return [in_words(axis, value, others) for axis, rules in self.only.items() for value, others in rules.items()]


def implemented(point: Point) -> Task:
    """Return the task that the module of the point's benchmark prepares, by its function `prepare(point)`."""
    name = REGISTRY[point.benchmark].implementation(point.device, point.params)
    assert name is not None, f"{point.benchmark} declares no module"
    task: Task = import_module(name).prepare(point)
    return task


def implementations(module: str, device: Device) -> Values:
    """Return the names that stand for `{impl}` in the files that implement a benchmark on a device.

    The vendor's comes first, the others in the order of the alphabet. A file is an implementation if its source
    defines, assigns or imports `prepare` at the top level; it is read and not imported, since it imports frameworks.
    """
    package, _, pattern = module.rpartition(".")
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or []
    before, after = pattern.format(device=device, impl="\0").split("\0")
    files = (file for folder in folders for file in Path(folder).glob(f"{before}*{after}.py"))
    found = (f.stem[len(before) : len(f.stem) - len(after)] for f in files if _binds_prepare(f.read_text("utf-8")))
    return tuple(sorted(found, key=lambda name: (name != "vendor", name)))


def _binds_prepare(source: str) -> bool:
    """Return whether the source of a module gives `prepare` a value; a file with a syntax error counts as doing so.

    Its points then fail with that error. The most common form is found without parsing, which takes a millisecond.
    """
    if "\ndef prepare(" in source:
        return True
    if "prepare" not in source:
        return False
    try:
        symbol = symtable.symtable(source, "<implementation>", "exec").lookup("prepare")
    except KeyError:
        return False
    except SyntaxError:
        return True
    return symbol.is_assigned() or symbol.is_imported()


def _declared_vendors(module: str) -> tuple[str, ...]:
    """Return the module's constant `VENDORS`, without importing the module; empty where it has none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return ()
    for statement in ast.parse(Path(spec.origin).read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == ["VENDORS"]:
            return tuple(ast.literal_eval(statement.value))
    return ()


def in_words(axis: str, value: Scalar | None, others: Mapping[str, Values]) -> str:
    """Return a rule of `only` as the user reads it: `impl=mma only with dtype=float16,bfloat16`."""
    known = (f"{other}={','.join(map(str, values))}" for other, values in others.items())
    return f"{axis}={value} only with {' '.join(known)}"


def _fact(fact: Fact[T], point: Point) -> T:
    return fact(point) if callable(fact) else fact


REGISTRY: dict[str, Benchmark] = {}


def benchmark(
    name: str,
    *,
    devices: tuple[Device, ...],
    axes: Mapping[str, Values | Mapping[str, Values]],
    figure: Figure,
    limits: Mapping[str, tuple[int, int]] | None = None,
    choices: Mapping[str, Values] | None = None,
    optional: Mapping[str, Values] | None = None,
    only: Only | None = None,
    backends: tuple[str, ...] = (),
    ceiling: bool = False,
    time_limit_s: float = 300.0,
    module: str = "",
    bound: Fact[Resource] | None = None,
    unbounded: str = "",
    dtype: Fact[str] | None = None,
    cores: Fact[Cores] = "all",
    layout: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
    small: Mapping[str, Values] | None = None,
    vendors: tuple[str, ...] = (),
) -> Callable[[Callable[..., object]], Callable[[Point], Prepared]]:
    """Declare the decorated function as the benchmark `name`; the function prepares one point.

    Where `module` names what implements the benchmark, the function takes nothing and has a docstring only; its name
    then stands for the function that prepares a point.

    `axes` maps an axis to its default values, or to one such tuple per device. Where the values are words, only
    those words may be asked for; where they are integers, any integer within `limits` (at least 1 by default) may be.
    `choices` lists all values that may be asked for, of an axis whose defaults are only some of them.
    `optional` are further axes, which a point has only where another value than the default was asked for.
    `only` says which combinations exist where not all do, `{"impl": {"mma": {"dtype": ("float16", "bfloat16")}}}`:
    no point is planned with another. Beside axes it may name the `device` and the `backend`. What depends on the
    machine is not declared: the function raises Skip for it.
    `figure` is what the report leads with: the rate of flops, bytes or items, or the time: of one item where the work
    counts items, else of one execution.
    `backends` names the Keras backends of a workload. `ceiling` says that the best rate measured
    here is a ceiling for everything else on this device. A point that takes longer than `time_limit_s` counts as hung.
    `module` names what implements a point, by its device and its axes (`accelbench.kernels.stream.{device}_{impl}`): a
    module with a function `prepare(point)`, which one process imports for many points. Where `impl` is not among the
    axes it becomes the first of them, and its values are the files that are there: a new file is a new implementation.

    What follows is declared because nobody guesses it from the names of axes, which may be called anything:
    `bound` says what of the hardware bounds the rate, so that it is shown as a share of that: `arithmetic` in `dtype`,
    by one or all `cores`, or `memory`; `unbounded` is the reason why nothing does. A rate of flops or bytes needs one
    of the two. `bound`, `dtype` and `cores` are values, or functions of the point such as `axis("precision")`.
    `layout` names the axes that say how a point is laid out, by the fields of `Layout`: `{"processes": "ranks"}`.
    `sizes` names the axes that are sizes, with their unit in bytes: the report draws the figure against them.
    `small` are values of axes at which an execution takes milliseconds: each implementation is verified there by tests.
    `vendors` names the vendors of the GPUs that the function can use, `("nvidia",)`, where it cannot use all; a module
    that implements a benchmark declares the same by a constant `VENDORS`. On other GPUs its points are skipped.
    ValueError where a declaration is missing that another needs.
    """

    if "{impl}" in module and "impl" not in axes:
        axes = {"impl": {device: implementations(module, device) for device in devices}, **axes}

    def declare(function: Callable[..., object]) -> Callable[[Point], Prepared]:
        if name in REGISTRY:
            raise ValueError(f"two benchmarks are called {name!r}")
        REGISTRY[name] = Benchmark(
            name,
            implemented if module else cast(Callable[[Point], Prepared], function),
            devices,
            axes,
            figure,
            limits or {},
            choices or {},
            optional or {},
            only or {},
            backends,
            ceiling,
            time_limit_s,
            module,
            bound,
            unbounded,
            dtype,
            cores,
            layout or {},
            sizes or {},
            small or {},
            function.__doc__ or "",
            vendors,
        )
        return REGISTRY[name].prepare

    return declare
