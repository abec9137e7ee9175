"""TensorFlow's MultiWorkerMirroredStrategy: one replica per process, synchronised in every step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from accelbench.profiling.ranks.world import world
from accelbench.workloads.distribution.sockets import connect_directly, require_trusted_network
from accelbench.workloads.distribution.tensorflow_loop import OwnLoop
from accelbench.workloads.distribution.tensorflow_replicas import Replicas


class MultiWorker(OwnLoop, Replicas):
    """Replicas that sum gradients by NCCL on GPUs, and by a ring over gRPC on CPUs."""

    backends = ("tensorflow",)
    automatic = True

    def start(self) -> None:
        self._strategy = _shared_strategy()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._strategy.run(function, args=arguments)

    def add_up(self, gradients: list[Any]) -> list[Any]:
        import tensorflow as tf

        # Keras has already divided each replica's loss by the number of replicas.
        return self._reduce(tf.distribute.ReduceOp.SUM, gradients)

    def mean(self, values: list[Any]) -> list[Any]:
        import tensorflow as tf

        return self._reduce(tf.distribute.ReduceOp.MEAN, values)

    def _reduce(self, how: Any, values: list[Any]) -> list[Any]:
        import tensorflow as tf

        # TensorFlow does not reduce function arguments and variables, which have no device.
        placed = [tf.identity(value) for value in values]
        reduced: list[Any] = tf.distribute.get_replica_context().all_reduce(how, placed)
        return reduced


@cache
def _shared_strategy() -> Any:
    """Return the only strategy of this process: TensorFlow would mix the collectives of two."""
    import tensorflow as tf

    here = world()
    if here.size > 1:
        require_trusted_network()
        connect_directly()
    # One process needs no cluster, but without a specification TensorFlow reads TF_CONFIG.
    cluster = tf.train.ClusterSpec({"worker": here.addresses} if here.size > 1 else {})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type="worker", task_id=here.rank, rpc_layer="grpc"
    )
    return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
