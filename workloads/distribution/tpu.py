"""TensorFlow's TPUStrategy: one replica per TPU core, synchronised in every step.

It needs the package tensorflow-tpu, which ended with version 2.20. Training on JAX needs no strategy for one TPU.
"""

from __future__ import annotations

import os

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.packages import install_extra
from accelbench.workloads.distribution.tensorflow_fit import OwnFit

LOCAL = "local"
"""TensorFlow's name for a TPU of this machine."""
NEEDS = (
    "TPUStrategy needs the package tensorflow-tpu (2.20 or older, Python 3.13 or older) and no other TensorFlow: "
    f"{install_extra('tpu-tensorflow')}, or use --backend jax"
)


class TpuReplicas(OwnFit):
    """Replicas on all cores of a TPU, located by a cluster resolver as in Kimm, Paik & Kimm (MCSoC-2021)."""

    backends = ("tensorflow",)
    only = {"device": ("tpu",), "devices": (1,), "processes": (1,)}
    automatic = True

    def start(self) -> None:
        """Connect to the TPU; Skip if this TensorFlow cannot use it."""
        import tensorflow as tf

        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME") or LOCAL)
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise Skip(f"TensorFlow {tf.__version__} cannot use the TPU ({reason}): {NEEDS}") from error
        self._strategy = tf.distribute.TPUStrategy(resolver)
        self.replicas = self._strategy.num_replicas_in_sync
