"""Program of `test_kernels_verified.py`, which verifies every GPU implementation with own kernels.

The problems are the small ones of the benchmarks, or where those take an interpreter minutes, smaller ones.
"""

from __future__ import annotations

import dataclasses
import sys
from importlib.util import find_spec

from accelbench.kernels.cache import gpu_bandwidth
from accelbench.kernels.lib.gpu import arrays
from accelbench.kernels.peak_arith import gpu_fma
from accelbench.kernels.treesearch.flowshop.instances import NODES
from accelbench.kernels.treesearch.uts import trees
from accelbench.profiling.records.point import Point
from tests.gpu import verify_small
from tests.kernels.test_uts import count

LARGE_BATCH = "70x150x90x70"
"""Of `gemm`: multiplied by one implementation only."""


def smaller(point: Point) -> Point:
    if point.benchmark == "flowshop":
        return dataclasses.replace(point, params={**point.params, "instance": min(NODES, key=NODES.__getitem__)})
    return point


def is_quick(point: Point) -> bool:
    if point.params.get("impl") == "triton" and (find_spec("triton") is None or point.benchmark == "gemm"):
        return False  # takes a second or more to compile
    return point.params.get("shape") != LARGE_BATCH or point.params["impl"] == "wgmma"


def main() -> int:
    arrays.MIN_BYTES = 1 << 16  # four L2 caches of the small simulated GPU
    gpu_bandwidth.READ = 1 << 18
    gpu_fma.TURNS = 4
    tree = trees.Tree("T1", trees.Geometric(3, "fixed", 4), 7, 0, 0, 0)
    nodes, leaves, depth = count(tree)
    trees.TREES["T1"] = dataclasses.replace(tree, nodes=nodes, leaves=leaves, depth=depth)
    points = [smaller(point) for point in verify_small.small_points() if is_quick(point)]
    return verify_small.verify(points)


if __name__ == "__main__":
    sys.exit(main())
