"""TensorFlow's MirroredStrategy: one replica per device of one process, synchronised in every step."""

from __future__ import annotations

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.strategy import require_devices
from accelbench.workloads.distribution.tensorflow_fit import OwnFit


class Mirrored(OwnFit):
    """Mirrored replicas on the first devices that TensorFlow lists; Skip for XLA on several devices."""

    backends = ("tensorflow",)
    only = {"processes": (1,), "device": ("cpu", "gpu")}
    automatic = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas = self.devices
        if self.devices > 1 and point.params.get("jit_compile") == "on":
            raise Skip("jit_compile=on: XLA compiles for a single device, and MirroredStrategy has one step for all")

    def start(self) -> None:
        import tensorflow as tf

        found = tf.config.list_logical_devices(self.point.device.upper())
        require_devices(len(found), self.devices, self.point)
        self._strategy = tf.distribute.MirroredStrategy([device.name for device in found[: self.devices]])
