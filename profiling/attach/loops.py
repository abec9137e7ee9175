"""Loops that call a training function many times in one launch, always with the same batch, by framework.

A function of JAX is pure: it gets its own results back, as in the script, and results that no call gets back, such as
the loss, are not computed. A function of TensorFlow changes variables: their values are saved before, and restored
after the loop.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

RESTORED = (
    "Assert",
    "Assign",
    "Case",
    "If",
    "PartitionedCall",
    "ReadVariableOp",
    "Resource",
    "RngReadAndSkip",
    "StatefulPartitionedCall",
    "VarIsInitializedOp",
    "VariableShape",
    "While",
)
"""Beginnings of the names of TensorFlow's stateful operations that change nothing but variables, if anything."""


class NoLoop(Exception):
    """Reason why a function cannot be called in a loop."""


class JaxLoop:
    """Loop of a function compiled by `jax.jit`; its value in a `with` block launches a number of calls."""

    def __init__(self, function: Any, arguments: Any, returned: list[Any]) -> None:
        """Prepare the loop of a call with these arguments; `returned` are weak references to the last results."""
        jax: Any = sys.modules["jax"]
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        alive = [reference and reference() for reference in returned]
        found = {id(leaf): at for at, leaf in enumerate(alive) if leaf is not None}
        sources = {place: found[id(leaf)] for place, leaf in enumerate(leaves) if id(leaf) in found}
        if not sources:
            raise NoLoop("the function does not get its results back unchanged")
        if function.trace(*arguments[0], **arguments[1]).jaxpr.effects:
            raise NoLoop("the function has side effects, such as prints")
        constant = {at: leaf for at, leaf in enumerate(leaves) if hasattr(leaf, "dtype") and at not in sources}

        def repeat(count: Any, carried: Any, constant: Any) -> Any:
            def call(_: Any, carried: Any) -> Any:
                given = [{**constant, **carried}.get(at, leaf) for at, leaf in enumerate(leaves)]
                positional, keywords = jax.tree_util.tree_unflatten(tree, given)
                results = jax.tree_util.tree_leaves(function(*positional, **keywords))
                return {place: results[source] for place, source in sources.items()}

            return jax.lax.fori_loop(0, count, call, carried)

        compiled = jax.jit(repeat)
        jax.block_until_ready(leaves)
        self._launch = lambda count: jax.block_until_ready(
            compiled(count, {place: leaves[place] for place in sources}, constant)
        )

    def __enter__(self) -> Callable[[int], object]:
        return self._launch

    def __exit__(self, *error: object) -> None:
        pass


class TensorFlowLoop:
    """Loop of a `tf.function`; its value in a `with` block launches a number of calls, compiled by XLA."""

    def __init__(self, function: Any, arguments: Any, returned: list[Any]) -> None:
        """Prepare the loop of a call with these arguments."""
        tensorflow: Any = sys.modules["tensorflow"]
        positional, keywords = arguments
        graph = function.get_concrete_function(*positional, **keywords).graph
        if effects := sorted(_effects(graph.as_graph_def())):
            raise NoLoop(f"the function has side effects: {', '.join(effects)}")
        self._variables = list(graph.variables)
        saved = {variable.handle.ref() for variable in self._variables}
        if any(tensor.dtype == tensorflow.resource and tensor.ref() not in saved for tensor, _ in graph.captures):
            raise NoLoop("the function has a state that is not in variables")

        def call(index: Any) -> Any:
            function(*positional, **keywords)
            return index + 1

        def repeat(count: Any) -> Any:
            return tensorflow.while_loop(lambda index: index < count, call, [tensorflow.constant(0)])

        compiled = tensorflow.function(repeat, jit_compile=True, autograph=False)
        self._launch = lambda count: compiled(tensorflow.constant(count))[0].numpy()
        self._copy = tensorflow.raw_ops.DeepCopy

    def __enter__(self) -> Callable[[int], object]:
        self._values = [self._copy(x=variable.read_value()) for variable in self._variables]
        return self._launch

    def __exit__(self, *error: object) -> None:
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value)


def _effects(graph: Any) -> Iterator[str]:
    """Yield the names of the stateful operations with effects that cannot be restored."""
    registry = sys.modules["tensorflow.python.framework.op_def_registry"]
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    for name in {node.op for node in nodes}:
        definition = registry.get(name)  # None for the name of a function
        if definition is not None and definition.is_stateful and not name.startswith(RESTORED):
            yield name


LOOPS: dict[str, Callable[[Any, Any, list[Any]], Any]] = {"jax": JaxLoop, "tensorflow": TensorFlowLoop}
"""Loop of a function, from the function, the arguments of its call, and its last results, by framework."""
