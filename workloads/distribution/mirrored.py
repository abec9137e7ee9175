"""TensorFlow's MirroredStrategy: a replica on each of several devices of one process, kept alike in every step."""

from __future__ import annotations

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.strategy import require_devices
from accelbench.workloads.distribution.tensorflow_fit import OwnFit


class Mirrored(OwnFit):
    """The devices are the first of those that TensorFlow sees; Skip for XLA on several of them."""

    backends = ("tensorflow",)
    only = {"processes": (1,), "device": ("cpu", "gpu")}
    automatic = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas = self.devices
        if self.devices > 1 and point.params.get("jit_compile") == "on":
            raise Skip(
                "XLA compiles a step for one device, and MirroredStrategy's is one for all: leave out jit_compile"
            )

    def start(self) -> None:
        import tensorflow as tf

        found = tf.config.list_logical_devices(self.point.device.upper())
        require_devices(len(found), self.devices, self.point)
        self._strategy = tf.distribute.MirroredStrategy([device.name for device in found[: self.devices]])
