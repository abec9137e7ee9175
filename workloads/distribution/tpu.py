"""TensorFlow's TPUStrategy: a replica on each core of a TPU, kept alike in every step."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

from profiling.benchmark import Skip
from profiling.records.point import Point
from workloads.distribution.strategy import Strategy

LOCAL = "local"
"""What TensorFlow calls a TPU of this machine: of a Cloud TPU VM, or of Colab's."""


def strategy(point: Point) -> Strategy:
    """That of the point; Skip on another device than a TPU."""
    return Tpu(point)


class Tpu(Strategy):
    """The cores are all that the TPU has; it is found as Kimm, Paik & Kimm (MCSoC-2021) do, by a cluster resolver."""

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        if point.device != "tpu":
            raise Skip(f"strategy tpu trains on a TPU, and the {point.device} was asked for")
        if self.world.size > 1 or self.devices > 1:
            raise Skip("strategy tpu takes all cores of the TPU, from one process: ask for no processes or devices")

    def start(self) -> None:
        import tensorflow as tf

        address = os.environ.get("COLAB_TPU_ADDR")
        named = os.environ.get("TPU_NAME") or (f"grpc://{address}" if address else LOCAL)
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=named)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        self._strategy = tf.distribute.TPUStrategy(resolver)
        self.replicas = self._strategy.num_replicas_in_sync

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope
