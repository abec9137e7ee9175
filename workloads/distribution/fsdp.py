"""PyTorch's FSDP2: each process stores a shard of all parameters, and gathers one block's at a time for computation.

`fully_shard` replaces the parameters of a module, while Keras computes with the tensors in its variables. One module
per block, and one for the rest of the model, therefore assigns its current parameters to the variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from accelbench.profiling.benchmark import Exchange
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.ddp import Ddp, train_step
from accelbench.workloads.distribution.sharding import Sharding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Fsdp(Ddp):
    """Sharded data parallelism: as DDP, but each process stores and updates only its shard of the parameters."""

    backends = ("torch",)
    only = {"devices": (1,), "precision": ("float32", "mixed_bfloat16"), "jit_compile": ("auto", "off")}
    automatic = False
    sharded = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self._units: dict[Any, list[Any]] = {}
        """FSDP modules of each sharded model, the root module last."""

    def shard(self, sharding: Sharding) -> None:
        self._blocks = re.compile(sharding.block)

    def held_bytes(self, model: Any) -> int | None:
        if model not in self._units:
            return None
        parts = [variable.value.to_local() for variable in model.trainable_variables]
        return int(sum(part.numel() * part.element_size() for part in parts))

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Predict in all processes together: no process has all parameters."""
        outputs = super().predict(model, data, **how)
        _reshard(self._units.get(model, []))
        return outputs

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """Return None: without the exchange a step has no complete parameters."""
        return None

    def _step(self, model: Any, batches: Feed) -> Callable[[Any], dict[str, Any]]:
        if model not in self._units:
            self._units[model] = self._shard_model(model, batches)
        units = self._units[model]
        _reshard(units)
        return partial(train_step, model, model, after_gradients=partial(_reshard, units))

    def _shard_model(self, model: Any, batches: Feed) -> list[Any]:
        """Shard the parameters and the optimizer state; return the FSDP modules, the root module last."""
        import torch

        layers = [layer for layer in model.layers if self._blocks.fullmatch(layer.name)]
        blocks = [_unit(layer.call, layer.trainable_variables) for layer in layers]
        inside = {id(variable) for layer in layers for variable in layer.trainable_variables}
        rest = [variable for variable in model.trainable_variables if id(variable) not in inside]
        units = [*blocks, _unit(model.call, rest, blocks)]
        for layer in model._flatten_layers():
            layer._torch_params = torch.nn.ParameterDict()  # Keras's own keeps all parameters in memory
        _reshard(units)
        # Keras builds the loss and the optimizer only in `fit`, which calls the model symbolically.
        with _sharded_state(model.optimizer):
            model._symbolic_build(data_batch=next(batches.data))
        for layer, unit in zip([*layers, model], units, strict=True):
            vars(layer)["call"] = unit  # not as an attribute, which Keras would register as a sublayer
        return units


def _unit(compute: Callable[..., Any], variables: list[Any], inside: list[Any] | None = None) -> Any:
    """Return an FSDP module that runs `compute` with these variables, each sharded over the processes."""
    import torch
    from torch.distributed.fsdp import fully_shard

    class ShardedUnit(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inside = torch.nn.ModuleList(inside)
            self.parts = torch.nn.ParameterList(variable.value for variable in variables)

        def forward(self, *inputs: Any, **options: Any) -> Any:
            self.update_variables()
            return compute(*inputs, **options)

        def update_variables(self) -> None:
            """Set Keras's variables to PyTorch's current parameters, gathered or sharded."""
            for variable, part in zip(variables, self.parts, strict=True):
                variable._value = part

    unit = fully_shard(ShardedUnit())
    # gloo has no averaging reduction.
    unit.set_force_sum_reduction_for_comms(not torch.cuda.is_available())
    return unit


def _reshard(units: list[Any]) -> None:
    """Free gathered parameters, and set Keras's variables to the shards."""
    for unit in units:
        unit.reshard()
        unit.update_variables()


@contextmanager
def _sharded_state(optimizer: Any) -> Iterator[None]:
    """Shard optimizer state created in this context like its parameter."""
    from torch.distributed.tensor import distribute_tensor

    make = optimizer.add_variable_from_reference

    def add(reference: Any, *arguments: Any, **options: Any) -> Any:
        variable, like = make(reference, *arguments, **options), reference.value
        variable._value = distribute_tensor(
            variable.value.detach(), like.device_mesh, like.placements, src_data_rank=None
        )
        return variable

    optimizer.add_variable_from_reference = add
    try:
        yield
    finally:
        del optimizer.add_variable_from_reference
