"""Mapping of trace events to the parts of a training step, by plane, line and name.

The names are those that TensorFlow 2.21, JAX 0.10 and PyTorch 2.13 write. What the CPU computes counts as `kernel`
where the CPU is the device; where there is another device it is the host's work.
"""

from __future__ import annotations

import re

from accelbench.profiling.records.trace import Part

STEP = "train"
"""The name of the step markers: each from the step's own beginning to its end."""
STEP_END = "step ended"
"""The name of the event that stands for the end of the step before the first one traced."""
EPOCH = "epoch begins"
"""The name of the event at the beginning of an epoch."""
INPUT_MADE = "input made"
"""The name of the events in which a thread of the suite's own pipeline makes a batch."""

DEVICE = re.compile(r"/device:(?!CPU)\w+:\d+")
STREAM = re.compile(r"^Stream #|^XLA Ops$|^Async XLA Ops$")
"""The lines of a device plane that hold what ran on it; others group the same time by step, module or scope."""
COLLECTIVE = re.compile(
    r"nccl|^gloo:|^mpi:|all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|collective", re.IGNORECASE
)
TO_DEVICE = re.compile(r"Memcpy ?H(2|to)D|infeed", re.IGNORECASE)
TO_HOST = re.compile(r"Memcpy ?D(2|to)H|outfeed", re.IGNORECASE)

COMPILE = re.compile(r"^(PjRt\w*Client::Compile|\w*Compiler::(RunBackend|RunHloPasses|Compile\w*)|XlaCompile\w*)$")
# The Keras functions that wait for the next batch; the profiler of JAX names a Python function `$file.py:line name`.
# On PyTorch it is a DataLoader, whatever it loads from.
INPUT = re.compile(
    r"^(IteratorGetNext(Op::DoCompute|AsOptionalOp::DoCompute)?|MultiDeviceIteratorGetNext\w*|Iterator::Root)$"
    r"|:IteratorGetNext\w*$|^\$\w+_adapter\w*\.py:\d+ get_\w*iterator$"
    r"|^enumerate\(DataLoader\)#\w+\.__next__$"
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

OPERATORS = "torch operators"
"""The beginning of the name of a line that holds the operators of PyTorch which a thread ran, but to make input."""
OPERATOR = re.compile(r"^(?!autograd::|torch::|profiler::)\w+::\w+(\.\w+)?$|^## Call CompiledFxGraph|^(gloo|mpi):")
"""An operator of PyTorch's or of another library, a compiled graph, or a CPU's collective until it ends."""
NO_OPERATION = re.compile(
    r"aten::(_?(un)?safe_)?(view(_as|_as_real|_as_complex)?|_?reshape(_alias|_as)?|as_strided_?|alias|detach_?|"
    r"lift(_fresh)?|resolve_(conj|neg)|t_?|numpy_T|transpose_?|swapaxes|permute|movedim|expand(_as)?|broadcast_to|"
    r"(un)?squeeze_?|flatten|unflatten|select|slice|narrow|split(_with_sizes)?|chunk|unbind|diagonal|unfold|"
    r"contiguous|to|type_as|item|_local_scalar_dense|is_nonzero|result_type|set_|requires_grad_|"
    r"(new_)?empty(_like|_strided)?)"
)
"""The operators that make a view, allocate, or read a number; what some of them call to copy is an operation."""


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
    return name == INPUT_MADE or (line.startswith("tf_data") and bool(INPUT_IN_PYTHON.search(name)))


def _device_part(name: str) -> Part:
    if COLLECTIVE.search(name):
        return "collective"
    if TO_DEVICE.search(name):
        return "host_to_device"
    return "device_to_host" if TO_HOST.search(name) else "kernel"


def is_cpu_kernel(line: str, name: str) -> bool:
    """Return whether it is arithmetic on the CPU: an operation of a framework's, not of the input pipeline."""
    if line.startswith("tf_data"):
        return False
    if line.startswith(OPERATORS):
        return bool(OPERATOR.search(name)) and not NO_OPERATION.fullmatch(name)
    if THUNKS.search(name):
        return True
    op = OP.search(name)
    return (op is not None and not NO_KERNEL.fullmatch(op[1])) or (line.startswith("tf_XLA") and bool(HLO.search(name)))
