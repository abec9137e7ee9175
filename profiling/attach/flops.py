"""FLOPs of one step by the framework's own counter, apart from the timed steps.

PyTorch counts the executed operations, JAX those of the compiled function before XLA optimises it, and TensorFlow those
of the graph. PyTorch counts products and convolutions only.
"""

from __future__ import annotations

import re
import sys

from .tracers import imported_framework

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PRODUCT = re.compile(r"stablehlo\.(?:dot_general|convolution)\b.*? : \(tensor<(?:[0-9?]+x)*([a-z]+[0-9a-zA-Z]*)>")
"""Products and convolutions in StableHLO, with the dtype of their first operand."""
DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
CALLS, LOOPS = ("PartitionedCall", "StatefulPartitionedCall"), ("While", "StatelessWhile", "XlaWhile")
"""Operations of TensorFlow's graphs that execute other graphs, once or repeatedly."""
PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "Conv2D", "Conv3D")
"""Operations of TensorFlow without which a count would be meaningless."""
LOOPED = "the compiled function contains loops, whose body {} counts once"

UNKNOWN_SHAPES = (
    "the batch size is unknown to the function compiled by TensorFlow: .batch(…, drop_remainder=True) makes it known"
)


class FlopCount:
    """FLOPs from the end of one step to the end of the next, by dtype; `reason` is set if they cannot be counted."""

    def __init__(self, framework: str | None) -> None:
        self.flops: dict[str, float] = {}
        self.reason: str | None = None
        self._mode: Any = None
        framework = framework or imported_framework()
        if framework is None:
            self.reason = "the script has imported no framework that counts them"
        elif framework == "torch":
            self._attempt(self._begin_torch)

    def call(self, framework: str, function: Any, arguments: Any, keywords: Any) -> None:
        """Add the FLOPs of a call of a function that trains, compiled by this framework."""
        self._attempt(COMPILED[framework], self, function, arguments, keywords)

    def add(self, dtype: str, flops: float) -> None:
        """Add FLOPs of this dtype."""
        self.flops[dtype] = self.flops.get(dtype, 0.0) + float(flops)

    def end(self) -> None:
        """End the count."""
        mode, self._mode = self._mode, None
        if mode is not None:
            from torch.utils._python_dispatch import _get_current_dispatch_mode

            if _get_current_dispatch_mode() is mode:  # otherwise the script has entered a mode that it has not left
                mode.__exit__(None, None, None)
        if not self.flops and self.reason is None:
            self.reason = "the framework counted no operation of a compiled function or of a product of matrices"

    def _attempt(self, count: Callable[..., None], *arguments: Any) -> None:
        try:
            count(*arguments)
        except Exception as error:  # noqa: BLE001 - frameworks raise various exceptions; none may end the script
            self.reason = f"{type(error).__name__}: {error}"

    def _begin_torch(self) -> None:
        """Enter the dispatch mode that counts; refuse it for `torch.compile`, which would compile again in a mode."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is not None and dynamo.counters["frames"]:
            self.reason = "operations of functions compiled by torch.compile are not counted"
            return
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.flop_counter import flop_registry

        count = self

        class CountingMode(TorchDispatchMode):  # type: ignore[misc]
            supports_higher_order_operators = True

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                formula = flop_registry.get(getattr(func, "_overloadpacket", None))
                if formula is not None and count._mode is self:
                    count._attempt(
                        lambda: count.add(_torch_dtype(torch, args), formula(*args, **(kwargs or {}), out_val=result))
                    )
                return result

        self._mode = CountingMode()
        self._mode.__enter__()


def _torch_dtype(torch: Any, arguments: Any) -> str:
    """Return the dtype of an operation's last tensor, which is a factor; `tf32` if float32 is rounded to it."""
    factor = [argument for argument in arguments if isinstance(argument, torch.Tensor)][-1]
    dtype = str(factor.dtype).removeprefix("torch.")
    return "tf32" if dtype == "float32" and factor.is_cuda and torch.backends.cuda.matmul.allow_tf32 else dtype


def _add_jitted(count: FlopCount, function: Any, arguments: Any, keywords: Any) -> None:
    """Add the FLOPs of a function compiled by JAX, whose lowering and executable JAX has kept."""
    lowered = function.lower(*arguments, **keywords)
    text = lowered.compiler_ir("stablehlo").operation.get_asm(large_elements_limit=16)
    if "stablehlo.while" in text:
        count.reason = LOOPED.format("XLA")
        return
    analysis = lowered.cost_analysis() or _cost_on_cpu(function, arguments, keywords)
    found = PRODUCT.findall(text)
    dtype = max(sorted(set(found)), key=found.count, default="f32")
    count.add(DTYPES.get(dtype, dtype), analysis["flops"])


def _cost_on_cpu(function: Any, arguments: Any, keywords: Any) -> Any:
    """Return the cost of the function compiled for a CPU: JAX analyses lowered functions on no other device."""
    import jax

    def described(value: Any) -> Any:
        return jax.ShapeDtypeStruct(value.shape, value.dtype) if isinstance(value, jax.Array) else value

    arguments, keywords = jax.tree.map(described, (arguments, keywords))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        return function.lower(*arguments, **keywords).cost_analysis()


def _add_graph(count: FlopCount, function: Any, arguments: Any, keywords: Any) -> None:
    """Add the FLOPs of a `tf.function`, whose graph for these arguments TensorFlow has kept."""
    logger = sys.modules["logging"].getLogger("tensorflow")
    before, logger.disabled = logger.disabled, True  # the count warns of a function that it calls itself
    try:
        _add_operations(count, function.get_concrete_function(*arguments, **keywords).graph)
    finally:
        logger.disabled = before


def _add_operations(count: FlopCount, graph: Any) -> None:
    from tensorflow.python.framework.ops import get_stats_for_node_def

    for operation in graph.get_operations():
        if operation.type in LOOPS:
            count.reason = LOOPED.format("TensorFlow")
        elif operation.type in CALLS:
            _add_operations(count, graph._get_function(operation.get_attr("f").name).graph)
        else:
            try:
                flops = get_stats_for_node_def(graph, operation.node_def, "flops").value
            except ValueError:
                flops = None
            if flops:
                dtype = operation.get_attr("T") if operation.type in PRODUCTS else operation.outputs[0].dtype
                count.add(dtype.name, flops)
            elif operation.type in PRODUCTS:
                count.reason = UNKNOWN_SHAPES


COMPILED = {"jax": _add_jitted, "tensorflow": _add_graph}
