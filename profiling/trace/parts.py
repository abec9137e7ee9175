"""Mapping of trace events to the parts of a training step, by plane, line and name.

The names are those of TensorFlow 2.21, JAX 0.10 and PyTorch 2.13. The CPU's computations count as `kernel` if the CPU
is the device, else as `host`.
"""

from __future__ import annotations

import re

from accelbench.profiling.records.trace import Part

STEP = "train"
"""Name of the step markers."""
STEP_END = "step ended"
"""Name of the event at the end of the last step before the traced ones."""
EPOCH = "epoch begins"
"""Name of the event at the start of an epoch."""
INPUT_MADE = "input made"
"""Name of the events in which a thread of the suite's own pipeline prepares a batch."""

DEVICE = re.compile(r"/device:(?!CPU)\w+:\d+")
STREAM = re.compile(r"^Stream #|^XLA Ops$|^Async XLA Ops$")
"""Lines of a device plane with executed work; other lines group the same time by step, module or scope."""
COLLECTIVE = re.compile(
    r"nccl|^gloo:|^mpi:|all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|collective", re.IGNORECASE
)
TO_DEVICE = re.compile(r"Memcpy ?H(2|to)D|infeed", re.IGNORECASE)
TO_HOST = re.compile(r"Memcpy ?D(2|to)H|outfeed", re.IGNORECASE)

COMPILE = re.compile(r"^(PjRt\w*Client::Compile|\w*Compiler::(RunBackend|RunHloPasses|Compile\w*)|XlaCompile\w*)$")
# Functions that wait for the next batch: in Keras, named `$file.py:line name` by JAX's profiler,
# and PyTorch's DataLoader.
INPUT = re.compile(
    r"^(IteratorGetNext(Op::DoCompute|AsOptionalOp::DoCompute)?|MultiDeviceIteratorGetNext\w*|Iterator::Root)$"
    r"|:IteratorGetNext\w*$|^\$\w+_adapter\w*\.py:\d+ get_\w*iterator$"
    r"|^enumerate\(DataLoader\)#\w+\.__next__$"
)
INPUT_IN_PYTHON = re.compile(r":(Eager)?PyFunc$")
WAIT = re.compile(r"^cu(da)?(Stream|Ctx|Event|Device)Synchronize$|BlockHostUntil(Done|Ready)|^\$time sleep$")
THUNKS = re.compile(r"^(ThunkExecutor::Execute|CpuExecutable::ExecuteAsyncOnStream)$")
HLO = re.compile(r"^[a-z][\w.-]*$")
"""Name of an instruction of a compiled program, on a thread of XLA."""
OP = re.compile(r"^[^:\s]+:(_?[A-Z]\w*)$")
"""Name of an operation of a TensorFlow graph: `scope/name:Type`."""
NO_KERNEL = re.compile(
    r"(Stateful)?PartitionedCall|While|If|Case|Iterator\w*|Optional\w*|(Eager)?PyFunc|Xla\w+|_(Send|Recv)"
)
"""Operations that run other operations, wait, or call Python."""

OPERATORS = "torch operators"
"""Prefix of the name of a line with a thread's PyTorch operators, except those that prepare input."""
OPERATOR = re.compile(r"^(?!autograd::|torch::|profiler::)\w+::\w+(\.\w+)?$|^## Call CompiledFxGraph|^(gloo|mpi):")
"""Operator of PyTorch or another library, a compiled graph, or a CPU collective."""
NO_OPERATION = re.compile(
    r"aten::(_?(un)?safe_)?(view(_as|_as_real|_as_complex)?|_?reshape(_alias|_as)?|as_strided_?|alias|detach_?|"
    r"lift(_fresh)?|resolve_(conj|neg)|t_?|numpy_T|transpose_?|swapaxes|permute|movedim|expand(_as)?|broadcast_to|"
    r"(un)?squeeze_?|flatten|unflatten|select|slice|narrow|split(_with_sizes)?|chunk|unbind|diagonal|unfold|"
    r"contiguous|to|type_as|item|_local_scalar_dense|is_nonzero|result_type|set_|requires_grad_|"
    r"(new_)?empty(_like|_strided)?)"
)
"""Operators that create a view, allocate, or read a number; copies that some of them call are operations."""


def part_of(plane: str, line: str, name: str, cpu_is_device: bool) -> Part | None:
    """Return the part of a step to which an event belongs; None for an event of no part."""
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
    """Return whether an event is Python code that prepares input on a thread of the pipeline."""
    return name == INPUT_MADE or (line.startswith("tf_data") and bool(INPUT_IN_PYTHON.search(name)))


def _device_part(name: str) -> Part:
    if COLLECTIVE.search(name):
        return "collective"
    if TO_DEVICE.search(name):
        return "host_to_device"
    return "device_to_host" if TO_HOST.search(name) else "kernel"


def is_cpu_kernel(line: str, name: str) -> bool:
    """Return whether an event is a framework's operation on the CPU, outside the input pipeline."""
    if line.startswith("tf_data"):
        return False
    if line.startswith(OPERATORS):
        return bool(OPERATOR.search(name)) and not NO_OPERATION.fullmatch(name)
    if THUNKS.search(name):
        return True
    op = OP.search(name)
    return (op is not None and not NO_KERNEL.fullmatch(op[1])) or (line.startswith("tf_XLA") and bool(HLO.search(name)))
