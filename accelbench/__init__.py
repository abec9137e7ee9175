"""Benchmarks and profiling for GPU computing and deep learning.

The names below are the public interface for your own files and notebooks; the command line is `accelbench --help`.

To declare a benchmark, in a file of a folder in ACCELBENCH_PATH:

- `benchmark`: decorator of the function that prepares a `Point`, one value per axis, and returns a `Task`
- `Work`: flops, bytes or items of one execution; `Metric`: a further result with its unit
- `Verification`: outcome of a check; `verify_close` compares arrays and returns one
- `Skip`: exception for a point that this machine cannot measure
- `MatrixAxes`: axes of the rows and columns of a matrix of results in the report

To declare a training workload:

- `training`: decorator of the function that builds a compiled Keras model for a `Point` and a `Strategy`
- `classifier`, `experiment`: a `Training` of such a model, measured on `Data` and evaluated by each `Quality`
- `jit_compile`: the argument of `model.compile` for the point's axis of that name

To measure from Python:

- `measure`: time a callable; returns a `Measurement`
- `run`: run benchmarks as `accelbench run` does; returns a `StoredRun`
- `load`: open a stored run

To mark a training loop for `accelbench diagnose`:

- `steps`: iterate over batches (`for batch in steps(loader)`); each iteration is a step

In a notebook, `%load_ext accelbench` adds the cell magic `%%diagnose`, which diagnoses the training loop of a cell.

Names are imported on first use: `import accelbench` imports neither frameworks nor NumPy.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelbench.api import StoredRun, load, run
    from accelbench.measurement import Measurement, measure
    from accelbench.profiling.attach.marks import steps
    from accelbench.profiling.benchmark import Skip, Task, Training, benchmark
    from accelbench.profiling.records.matrix import MatrixAxes
    from accelbench.profiling.records.point import Point
    from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
    from accelbench.profiling.records.work import Work
    from accelbench.profiling.timing.verification import verify_close
    from accelbench.workloads.distribution.strategy import Strategy
    from accelbench.workloads.training.declare import training
    from accelbench.workloads.training.experiment import classifier, experiment
    from accelbench.workloads.training.keras_model import jit_compile

__version__ = "0.2.0"

__all__ = [
    "Data",
    "MatrixAxes",
    "Measurement",
    "Metric",
    "Point",
    "Quality",
    "Skip",
    "StoredRun",
    "Strategy",
    "Task",
    "Training",
    "Verification",
    "Work",
    "benchmark",
    "classifier",
    "experiment",
    "jit_compile",
    "load",
    "measure",
    "run",
    "steps",
    "training",
    "verify_close",
]

_PLACES = {
    "measurement": ("Measurement", "measure"),
    "profiling.attach.marks": ("steps",),
    "profiling.benchmark": ("Skip", "Task", "Training", "benchmark"),
    "profiling.records.matrix": ("MatrixAxes",),
    "profiling.records.point": ("Point",),
    "profiling.records.quality": ("Data", "Metric", "Quality", "Verification"),
    "profiling.records.work": ("Work",),
    "profiling.timing.verification": ("verify_close",),
    "api": ("StoredRun", "load", "run"),
    "workloads.distribution.strategy": ("Strategy",),
    "workloads.training.declare": ("training",),
    "workloads.training.experiment": ("classifier", "experiment"),
    "workloads.training.keras_model": ("jit_compile",),
}
"""Public names by module."""

# An archive unpacked without symbolic links has a file of a few bytes in place of each link.
for _link in ("kernels", "profiling", "workloads"):
    if not os.path.isdir(os.path.join(os.path.dirname(__file__), _link)):
        print(
            f"accelbench: accelbench/{_link} must be a symbolic link to ../{_link} in a checkout: clone with git "
            "(git config core.symlinks true), or install the package with pip",
            file=sys.stderr,
        )
        sys.exit(2)


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for module, names in _PLACES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Register the cell magic `%%diagnose`; IPython calls this for `%load_ext accelbench`."""
    import_module(f"{__name__}.notebook").register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
