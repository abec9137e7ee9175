"""The meaning of a trace's events: the part of a training step that each belongs to, by plane, line and name.

The names are those that TensorFlow 2.21 and JAX 0.10 write. What the CPU computes counts as `kernel` where the CPU is
the device; where there is another device it is the host's work.
"""

from __future__ import annotations

import re

from profiling.records.trace import Part

STEP = "train"
"""The name of the step markers: each from the step's own beginning to its end."""
STEP_END = "step ended"
"""The name of the event that stands for the end of the step before the first one traced."""
EPOCH = "epoch begins"
"""The name of the event at the beginning of an epoch."""

DEVICE = re.compile(r"/device:(?!CPU)\w+:\d+")
STREAM = re.compile(r"^Stream #|^XLA Ops$|^Async XLA Ops$")
"""The lines of a device plane that hold what ran on it; others group the same time by step, module or scope."""
COLLECTIVE = re.compile(r"nccl|all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective", re.IGNORECASE)
TO_DEVICE = re.compile(r"Memcpy ?H(2|to)D|infeed", re.IGNORECASE)
TO_HOST = re.compile(r"Memcpy ?D(2|to)H|outfeed", re.IGNORECASE)

COMPILE = re.compile(r"^(PjRt\w*Client::Compile|\w*Compiler::(RunBackend|RunHloPasses|Compile\w*)|XlaCompile\w*)$")
# The Keras functions that wait for the next batch; the profiler of JAX names a Python function `$file.py:line name`.
INPUT = re.compile(
    r"^(IteratorGetNext(Op::DoCompute|AsOptionalOp::DoCompute)?|MultiDeviceIteratorGetNext\w*|Iterator::Root)$"
    r"|:IteratorGetNext\w*$|^\$\w+_adapter\w*\.py:\d+ get_\w*iterator$"
)
INPUT_IN_PYTHON = re.compile(r":(Eager)?PyFunc$")
WAIT = re.compile(r"^cu(da)?(Stream|Ctx|Event|Device)Synchronize$|BlockHostUntil(Done|Ready)|^\$time sleep$")
THUNKS = re.compile(r"^(ThunkExecutor::Execute|CpuExecutable::ExecuteAsyncOnStream)$")
HLO = re.compile(r"^[a-z][\w.-]*$")
"""The name of an instruction of a compiled program, on a thread of XLA's own."""
OP = re.compile(r"^[^:\s]+:(_?[A-Z]\w*)$")
"""The name of an operation of a TensorFlow graph: `scope/name:Type`."""
NO_KERNEL = re.compile(
    r"(Stateful)?PartitionedCall|While|If|Case|Iterator\w*|Optional\w*|(Eager)?PyFunc|Xla\w+|_(Send|Recv)"
)
"""The operations that run others, wait, or call Python."""


def part_of(plane: str, line: str, name: str, cpu_is_device: bool) -> Part | None:
    """Return the part of a step that such an event is of; None for one that says nothing."""
    if DEVICE.search(plane):
        return _device_part(name) if STREAM.search(line) else None
    if COMPILE.search(name):
        return "compile"
    if INPUT.search(name):
        return "input_wait"
    if WAIT.search(name):
        return "idle"
    if cpu_is_device and is_cpu_kernel(line, name):
        return "collective" if COLLECTIVE.search(name) else "kernel"
    return None


def is_input_in_python(line: str, name: str) -> bool:
    """Return whether it is Python that makes input on a thread of the pipeline, beside the step's own Python."""
    return line.startswith("tf_data") and bool(INPUT_IN_PYTHON.search(name))


def _device_part(name: str) -> Part:
    if COLLECTIVE.search(name):
        return "collective"
    if TO_DEVICE.search(name):
        return "host_to_device"
    return "device_to_host" if TO_HOST.search(name) else "kernel"


def is_cpu_kernel(line: str, name: str) -> bool:
    """Return whether it is arithmetic on the CPU: an operation of TensorFlow's or XLA's, not of the input pipeline."""
    if line.startswith("tf_data"):
        return False
    if THUNKS.search(name):
        return True
    op = OP.search(name)
    return (op is not None and not NO_KERNEL.fullmatch(op[1])) or (line.startswith("tf_XLA") and bool(HLO.search(name)))
