"""Keras's ModelParallel on JAX: all devices of all processes compute one replica, each with a part of the parameters.

Each step is one program, into which XLA inserts the exchanges for products of matrices that are split over several
devices. Every process loads the complete batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelbench.profiling.benchmark import Exchange
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.data_parallel import BATCH, DataParallel, inputs_of, names
from accelbench.workloads.distribution.sharding import Sharding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL = "model"
"""Name of the mesh axis over which the parameters are sharded."""


class ModelParallel(DataParallel):
    """Model parallelism over the first devices that JAX lists in each process."""

    backends = ("jax",)
    automatic = False
    sharded = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas, self.replica_devices = 1, self.devices * self.world.size

    @property
    def share(self) -> slice:
        return slice(self.batch)

    def start(self) -> None:
        import keras
        from keras.distribution import DeviceMesh, LayoutMap

        devices = names([device for own in self.found() for device in own])
        self._layouts = LayoutMap(DeviceMesh((1, len(devices)), [BATCH, MODEL], devices))
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=self._layouts, batch_dim_name=BATCH, auto_shard_dataset=False)
        )

    def shard(self, sharding: Sharding) -> None:
        sharding.require(self.replica_devices)
        for pattern, axis in sharding.along.items():
            self._layouts[pattern] = (*[None] * axis, MODEL)

    def held_bytes(self, model: Any) -> int:
        parts = [part for each in model.trainable_variables for part in each.value.addressable_shards]
        return sum(part.data.nbytes for part in parts)

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Predict in all processes together: no process has all parameters."""
        import jax
        import numpy as np
        from jax.sharding import NamedSharding, PartitionSpec

        whole = NamedSharding(self._layouts.device_mesh.backend_mesh, PartitionSpec())

        def forward(learning: Any, fixed: Any, batch: Any) -> Any:
            return model.stateless_call(learning, fixed, batch, training=False)[0]

        compiled = self._forward.setdefault(model, jax.jit(forward, out_shardings=whole))
        weights = [
            [variable.value for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        ]
        outputs = [
            compiled(*weights, jax.make_array_from_process_local_data(whole, np.asarray(batch)))
            for batch in inputs_of(data, **how)
        ]
        return np.concatenate([np.asarray(output.addressable_data(0)) for output in outputs])

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """Return None: a step without the exchange has no meaningful result."""
        return None
