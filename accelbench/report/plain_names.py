"""Plain names of the built-in benchmarks and their main axes, for readers who do not know the suite's terms."""

from __future__ import annotations

from collections.abc import Mapping

from accelbench.profiling.records.record import Record

PLAIN_NAMES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "all-gpus-matmul": ("Matrix product on all GPUs", ("dtype",)),
    "all-gpus-peak-arith": ("Arithmetic on all GPUs", ("dtype",)),
    "all-gpus-stream": ("Memory copy on all GPUs", ()),
    "atomics": ("Atomic additions", ("target",)),
    "attention": ("Attention", ("dtype",)),
    "bigru-imdb": ("Training: GRU on film reviews", ()),
    "bilstm-har": ("Training: LSTM on sensor data", ()),
    "bilstm-imdb": ("Training: LSTM on film reviews", ()),
    "cache-bandwidth": ("Cache bandwidth", ("cores",)),
    "cache-latency": ("Cache latency", ()),
    "checkpoint": ("Checkpoint in a file system", ("op", "io")),
    "cnn-mnist": ("Training: small CNN on digits", ()),
    "collectives": ("Collective operation", ("op",)),
    "dbn-mnist": ("Training: deep belief network on digits", ()),
    "deep-mnist-embryo": ("Training: CNN on cell images", ()),
    "detection": ("Training: object detection", ()),
    "flowshop": ("Branch and bound, flow shop", ()),
    "gemm": ("Matrix product, deep-learning shapes", ("dtype",)),
    "generate": ("Text generation", ("phase",)),
    "launch": ("Kernel launch", ("mode",)),
    "matmul": ("Matrix product", ("dtype",)),
    "norm": ("Normalisation of rows", ()),
    "nqueens": ("Tree search, N-Queens", ()),
    "numa-bandwidth": ("Bandwidth between NUMA nodes", ()),
    "numa-latency": ("Latency between NUMA nodes", ()),
    "optimizer-step": ("Optimizer step, AdamW", ()),
    "paradnn-cnn": ("Training: residual network", ()),
    "paradnn-fc": ("Training: fully connected network", ()),
    "paradnn-rnn": ("Training: recurrent network", ()),
    "peak-arith": ("Arithmetic", ("dtype", "cores")),
    "pingpong": ("Messages between two processes", ()),
    "random-read": ("Random reads of a file", ("depth",)),
    "reduce": ("Sum of an array", ("dtype",)),
    "resnet50": ("Training: ResNet-50", ()),
    "segmentation": ("Training: instance segmentation", ()),
    "softmax-xent": ("Softmax cross-entropy", ()),
    "stream": ("Memory bandwidth", ("op",)),
    "transfer": ("Copy between host and device", ("direction",)),
    "transfer-fit": ("Latency and bandwidth, host to device", ("direction",)),
    "transfer-gpus": ("Copy between two GPUs", ("from", "to")),
    "transfer-numa": ("Copy between memory node and GPU", ("direction", "node", "gpu")),
    "transformer": ("Training: language model", ()),
    "uts": ("Tree search, unbalanced tree", ()),
}
"""Name of each built-in benchmark, and the axes whose values complete it."""
VALUES: Mapping[tuple[str, object], str] = {("cores", "all"): "all cores", ("cores", "one"): "one core"}
"""Plain values, where a value is not understood without its axis."""


def plain_name(record: Record) -> str:
    """Return the plain name of a record's benchmark: `Arithmetic, float32, all cores`; its own name if it has none."""
    point = record.point
    name, axes = PLAIN_NAMES.get(point.benchmark, (point.benchmark, ()))
    values = [(axis, point.values[axis]) for axis in axes if axis in point.values]
    if point.device != "cpu":  # a GPU has no choice of cores
        values = [(axis, value) for axis, value in values if axis != "cores"]
    return ", ".join([name, *(VALUES.get(pair, str(pair[1])) for pair in values)])
