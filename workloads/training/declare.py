"""Declaration of training workloads: the axes, choices and limits that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps

from accelbench.profiling.benchmark import Prepared, Training, Values, benchmark
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import WORKERS
from accelbench.workloads.distribution import find
from accelbench.workloads.distribution import strategy as distribution
from accelbench.workloads.distribution.strategy import LAYOUT, Strategy
from accelbench.workloads.training import given

BACKENDS = ("tensorflow", "jax", "torch")
AXES: Mapping[str, Values] = {"precision": ("float32",), "jit_compile": ("auto",)}
"""Axes of every training workload, in addition to its own."""
CHOICES: Mapping[str, Values] = {
    "precision": ("float32", "mixed_float16", "mixed_bfloat16"),
    "jit_compile": ("auto", "on", "off"),
}


def arithmetic(point: Point) -> str:
    """Return the dtype of the model's matrix products."""
    return str(point["precision"]).removeprefix("mixed_")


def by_device(cpu: int, accelerator: int) -> Mapping[str, Values]:
    """Return an axis's default values: one for the CPU, one for accelerators."""
    return {"cpu": (cpu,), "gpu": (accelerator,), "tpu": (accelerator,)}


def training(
    name: str,
    *,
    axes: Mapping[str, Values | Mapping[str, Values]],
    choices: Mapping[str, Values] | None = None,
    limits: Mapping[str, tuple[int, int]] | None = None,
    optional: Mapping[str, Values] | None = None,
    distributed: bool = False,
    sharded: bool = False,
    time_limit_s: float = 7200.0,
) -> Callable[[Callable[[Point, Strategy], Training]], Callable[[Point], Prepared]]:
    """Declare the decorated function as the training workload `name`, on every device and backend.

    The function receives a point and its strategy, and prepares the training; Keras already uses the point's backend
    and device, within the strategy's scope. `axes`, `choices`, `limits` and `optional` are as in `benchmark`; the axes
    common to all training workloads are added. A `distributed` workload supports several devices and processes; a
    `sharded` one also supports strategies that shard its parameters, and must call `Strategy.shard`.
    """

    def declare(build: Callable[[Point, Strategy], Training]) -> Callable[[Point], Prepared]:
        @wraps(build)
        def prepare(point: Point) -> Prepared:
            from accelbench.workloads.training.keras_model import use_backend

            strategy = use_backend(point)
            if strategy.serving:
                return strategy.serving
            with strategy.scope():
                return build(point, strategy)

        return benchmark(
            name,
            devices=("cpu", "gpu", "tpu"),
            axes={**axes, **AXES},
            choices={**(choices or {}), **CHOICES, **given.CHOICES, **(find.choices(sharded) if distributed else {})},
            limits={**(limits or {}), **(find.LIMITS if distributed else {})},
            optional={**(optional or {}), **(distribution.AXES if distributed else {}), **given.AXES},
            only={**(find.only(sharded) if distributed else {}), **given.ONLY},
            metric="items",
            bound="arithmetic",
            dtype=arithmetic,
            layout={**(LAYOUT if distributed else {}), **({"input_workers": WORKERS} if WORKERS in axes else {})},
            backends=BACKENDS,
            time_limit_s=time_limit_s,
        )(prepare)

    return declare
