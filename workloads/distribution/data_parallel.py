"""Keras's DataParallel on JAX: one replica per device of all processes.

Each step is one program for all devices, with the loss and gradients of the global batch: XLA inserts the exchange
where gradients are summed. In a recurrent layer on CPUs this is every time step, which makes several processes slow.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from accelbench.profiling.benchmark import Exchange
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.sockets import connect_directly
from accelbench.workloads.distribution.strategy import Strategy, require_devices
from accelbench.workloads.distribution.watch import watched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = "batch"
"""Keras's name of the device mesh axis."""


class DataParallel(Strategy):
    """Data parallelism over the first devices that JAX lists in each process."""

    backends = ("jax",)
    automatic = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas = self.devices * self.world.size
        self._forward: dict[Any, Any] = {}
        """Compiled forward pass of each model."""
        self._local_step: Any = None
        """Compiled step without exchange."""

    def start(self) -> None:
        import keras

        devices = self.found()
        self._global = _over([device for own in devices for device in own])
        self._local = _over(devices[self.world.rank])
        keras.distribution.set_distribution(self._global)

    def found(self) -> list[list[Any]]:
        """Connect to the other processes, and return the devices of each, in rank order.

        The order makes a process's share of a batch the share of its devices.
        """
        import jax

        if self.world.size > 1:
            self._connect()
        require_devices(jax.local_device_count(), self.devices, self.point)
        return [jax.local_devices(process_index=rank)[: self.devices] for rank in range(self.world.size)]

    def _connect(self) -> None:
        import jax
        from jax._src.lib import _jax

        connect_directly()
        # JAX has no setting for the address of gloo, its CPU engine, and defaults to the host name's.
        _jax.make_gloo_tcp_collectives = partial(
            _jax.make_gloo_tcp_collectives,
            hostname=self.world.host,
            interface=os.environ.get("GLOO_SOCKET_IFNAME"),
        )
        first = self.world.addresses[0]
        jax.distributed.initialize(
            first,
            self.world.size,
            self.world.rank,
            # The launcher has already chosen the visible devices: all of them belong to this process.
            cluster_detection_method="deactivate",
            coordinator_bind_address=first,
        )

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        return super().train(model, watched(batches), epochs, callbacks)

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Predict on one device of each process, so that the batch need not be divisible by the number of devices."""
        import jax
        import numpy as np

        def forward(learning: Any, fixed: Any, batch: Any) -> Any:
            return model.stateless_call(learning, fixed, batch, training=False)[0]

        compiled = self._forward.setdefault(model, jax.jit(forward))
        weights = [
            [variable.value.addressable_data(0) for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        ]
        return np.concatenate([np.asarray(compiled(*weights, batch)) for batch in inputs_of(data, **how)])

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        if self.replicas == 1:
            return None
        import numpy as np

        sizes = [
            math.prod(variable.shape) * np.dtype(variable.dtype).itemsize for variable in model.trainable_variables
        ]
        all_reduce = _IsolatedAllReduce(self._global.device_mesh.backend_mesh, model)
        return Exchange(partial(self._train_without_exchange, model, batches), all_reduce, sum(sizes))

    def _train_without_exchange(self, model: Any, batches: Feed, callbacks: list[Any]) -> None:
        """Train with Keras's step on each device and its share alone, without JAX's check for equal replicas."""
        import jax
        from jax.sharding import PartitionSpec

        state, batch = PartitionSpec(), PartitionSpec(BATCH)
        model.train_step = jax.shard_map(
            model.train_step,
            mesh=self._local.device_mesh.backend_mesh,
            in_specs=(state, batch),
            out_specs=state,
            check_vma=False,
        )
        exchanging, model.train_function = model.train_function, self._local_step
        _replicate(model, self._local)
        try:
            with self._local.scope():
                self.train(model, batches, int(self.point["epochs"]), callbacks)
        finally:
            _replicate(model, self._global)
            del model.train_step
            self._local_step, model.train_function = model.train_function, exchanging


def _over(devices: list[Any]) -> Any:
    """Return Keras's data distribution over `devices`."""
    import keras

    return keras.distribution.DataParallel(devices=names(devices), auto_shard_dataset=False)


def names(devices: list[Any]) -> list[str]:
    """Return Keras's device names."""
    return [f"{device.platform}:{device.id}" for device in devices]


def _replicate(model: Any, distribution: Any) -> None:
    """Move the model's variables to the distribution's devices, with the values of this process's first device.

    The layout is set directly: Keras would compare the values of all processes at every assignment.
    """
    import jax
    from keras.distribution import TensorLayout

    for variable in [*model.variables, *model.optimizer.variables, *model.metrics_variables]:
        variable._layout = TensorLayout([None] * len(variable.shape), distribution.device_mesh)
        sharding, own = variable._layout.backend_layout, variable.value.addressable_data(0)
        copies = [jax.device_put(own, device) for device in sharding.addressable_devices_indices_map(variable.shape)]
        variable._value = jax.make_array_from_single_device_arrays(variable.shape, sharding, copies)


class _IsolatedAllReduce:
    """All-reduce of random arrays, with the shapes of the model's gradients, over all devices."""

    def __init__(self, mesh: Any, model: Any) -> None:
        self._mesh, self._like = mesh, [(variable.shape, variable.dtype) for variable in model.trainable_variables]

    def __call__(self) -> None:
        import jax

        jax.block_until_ready(self._all_reduce(self._gradients))

    @cached_property
    def _gradients(self) -> list[Any]:
        import jax
        import numpy as np
        from jax.sharding import NamedSharding, PartitionSpec

        rng, replicated = np.random.default_rng(0), NamedSharding(self._mesh, PartitionSpec())
        arrays = [rng.standard_normal(shape).astype(dtype) for shape, dtype in self._like]
        return [jax.make_array_from_process_local_data(replicated, numbers) for numbers in arrays]

    @cached_property
    def _all_reduce(self) -> Any:
        import jax
        from jax.sharding import PartitionSpec

        spec = PartitionSpec()

        def mean(gradients: list[Any]) -> list[Any]:
            return [jax.lax.pmean(gradient, BATCH) for gradient in gradients]

        return jax.jit(jax.shard_map(mean, mesh=self._mesh, in_specs=spec, out_specs=spec, check_vma=False))


def inputs_of(data: Any, batch_size: int | None = None, steps: int | None = None) -> Iterator[Any]:
    """Return the inputs of each batch, from an array or a generator of batches."""
    if batch_size is None:
        return (batch[0] for batch in islice(data, steps))
    return (data[begin : begin + batch_size] for begin in range(0, len(data), batch_size))
