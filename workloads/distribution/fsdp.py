"""PyTorch's FSDP2: a process keeps a share of all parameters, and gathers those of a block while it computes with them.

`fully_shard` replaces the parameters of a module, and Keras computes with those that its variables hold: a module for
each block, and one for the rest of the model, hands its present parameters on to the variables.
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
    """Each process trains on its share of every batch, as in DDP, and its optimiser changes its share of parameters."""

    backends = ("torch",)
    only = {"devices": (1,), "precision": ("float32", "mixed_bfloat16"), "jit_compile": ("auto", "off")}
    automatic = False
    sharded = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self._units: dict[Any, list[Any]] = {}
        """The modules of each model that is shared out, that of the whole last."""

    def shard(self, sharding: Sharding) -> None:
        self._blocks = re.compile(sharding.block)

    def held_bytes(self, model: Any) -> int | None:
        if model not in self._units:
            return None
        parts = [variable.value.to_local() for variable in model.trainable_variables]
        return int(sum(part.numel() * part.element_size() for part in parts))

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Predict in all processes together: none has all parameters."""
        outputs = super().predict(model, data, **how)
        _drop(self._units.get(model, []))
        return outputs

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """Return None: a step that leaves out the exchange would lack the parameters to compute with."""
        return None

    def _step(self, model: Any, batches: Feed) -> Callable[[Any], dict[str, Any]]:
        if model not in self._units:
            self._units[model] = self._share_out(model, batches)
        units = self._units[model]
        _drop(units)
        return partial(train_step, model, model, after_gradients=partial(_drop, units))

    def _share_out(self, model: Any, batches: Feed) -> list[Any]:
        """Share out the parameters and what the optimiser keeps of them; return the modules, that of the whole last."""
        import torch

        layers = [layer for layer in model.layers if self._blocks.fullmatch(layer.name)]
        blocks = [_unit(layer.call, layer.trainable_variables) for layer in layers]
        inside = {id(variable) for layer in layers for variable in layer.trainable_variables}
        rest = [variable for variable in model.trainable_variables if id(variable) not in inside]
        units = [*blocks, _unit(model.call, rest, blocks)]
        for layer in model._flatten_layers():
            layer._torch_params = torch.nn.ParameterDict()  # Keras's own would keep all parameters in memory
        _drop(units)
        # Keras has no public way to build the loss and the optimiser but `fit`, which calls the model without numbers.
        with _shared_out_alike(model.optimizer):
            model._symbolic_build(data_batch=next(batches.data))
        for layer, unit in zip([*layers, model], units, strict=True):
            vars(layer)["call"] = unit  # not as an attribute, which Keras would take for a layer of the layer
        return units


def _unit(compute: Callable[..., Any], variables: list[Any], inside: list[Any] | None = None) -> Any:
    """Return a module that computes with these variables, of which each process keeps a share."""
    import torch
    from torch.distributed.fsdp import fully_shard

    class ShardedUnit(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inside = torch.nn.ModuleList(inside)
            self.parts = torch.nn.ParameterList(variable.value for variable in variables)

        def forward(self, *inputs: Any, **options: Any) -> Any:
            self.hand_on()
            return compute(*inputs, **options)

        def hand_on(self) -> None:
            """Have Keras's variables be what PyTorch has in their place now, gathered or shared out."""
            for variable, part in zip(variables, self.parts, strict=True):
                variable._value = part

    unit = fully_shard(ShardedUnit())
    # gloo cannot average.
    unit.set_force_sum_reduction_for_comms(not torch.cuda.is_available())
    return unit


def _drop(units: list[Any]) -> None:
    """Drop what was gathered, so that Keras's variables are the process's share."""
    for unit in units:
        unit.reshard()
        unit.hand_on()


@contextmanager
def _shared_out_alike(optimizer: Any) -> Iterator[None]:
    """Have the optimiser share out what it keeps of a parameter as the parameter is."""
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
