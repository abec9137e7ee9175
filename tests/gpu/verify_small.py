"""Verifies every kernel once on small inputs, in one process; run by `test_sanitizer.py` under compute-sanitizer."""

from __future__ import annotations

import sys
from importlib import import_module

from accelbench.kernels.lib.gpu import arrays as gpu_arrays
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

SMALL: dict[str, dict[str, str | int]] = {
    "matmul.gpu_numba": {"dtype": "float32", "n": 150},
    "matmul.gpu_mma": {"dtype": "float16", "shape": "2x150x90x600"},
    "matmul.gpu_wgmma": {"dtype": "bfloat16", "shape": "70x150x90x70"},
    "attention.gpu_mma": {"dtype": "bfloat16", "head": 128, "sequence": 300, "heads": 2, "mask": "causal"},
    "stream.gpu_cupy": {"dtype": "float64", "op": "dot"},
    "stream.gpu_numba": {"dtype": "float32", "op": "dot"},
    "reduce.gpu_numba": {"dtype": "float32"},
    "norm.gpu_numba": {"width": 1001},
    "softmax_xent.gpu_numba": {"vocabulary": 50_257},
    "optimizer_step.gpu_numba": {},
    "cache.gpu_bandwidth": {"kib": 64},
    "cache.gpu_latency": {"kib": 64},
    "atomics.gpu_numba": {"target": "own", "dtype": "int32"},
    "peak_arith.gpu_fma": {"dtype": "float32"},
    "launch.gpu_cupy": {"mode": "graph"},
    "launch.gpu_numba": {"mode": "latency"},
    "treesearch.nqueens.gpu_prefix": {"queens": 8},
    "treesearch.nqueens.gpu_tuned": {"queens": 10},
    "treesearch.uts.gpu_sharing": {"tree": "T1"},
    "treesearch.flowshop.gpu_sharing": {"instance": 7},
}


def main() -> int:
    """Print a line per kernel; the exit status is 1 if one computed a wrong answer."""
    gpu_arrays.MOST_BYTES = 0  # arrays of a few L2 caches, however much memory the card has
    wrong = 0
    for module, params in SMALL.items():
        package, _, name = module.rpartition(".")
        point = Point(package.rpartition(".")[2], "gpu", {"impl": name.removeprefix("gpu_"), **params}, seed=7)
        try:
            outcome = import_module(f"accelbench.kernels.{module}").prepare(point).verify()
        except Skip as skip:
            print(f"{point}: skipped: {skip}", flush=True)
            continue
        print(f"{point}: {outcome}", flush=True)
        wrong += not outcome.passed
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
