"""TensorFlow's TPUStrategy: one replica per TPU core, synchronised in every step."""

from __future__ import annotations

import os

from accelbench.workloads.distribution.tensorflow_fit import OwnFit

LOCAL = "local"
"""TensorFlow's name for a TPU of this machine, a Cloud TPU VM or a Colab runtime."""


class TpuReplicas(OwnFit):
    """Replicas on all cores of a TPU, located by a cluster resolver as in Kimm, Paik & Kimm (MCSoC-2021)."""

    backends = ("tensorflow",)
    only = {"device": ("tpu",), "devices": (1,), "processes": (1,)}
    automatic = True

    def start(self) -> None:
        import tensorflow as tf

        address = os.environ.get("COLAB_TPU_ADDR")
        named = os.environ.get("TPU_NAME") or (f"grpc://{address}" if address else LOCAL)
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=named)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        self._strategy = tf.distribute.TPUStrategy(resolver)
        self.replicas = self._strategy.num_replicas_in_sync
