"""Horovod on TensorFlow: one replica per process, with gradients averaged by Horovod.

Horovod's last release is 0.28.1 of June 2023; its repository has since had a few fixes, most of them of its own tests.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from threading import Thread
from typing import Any

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.records.point import Point
from accelbench.workloads.distribution.sockets import connect_directly
from accelbench.workloads.distribution.tensorflow_replicas import Replicas

INSTALL = (
    "build its last release, 0.28.1 of June 2023, with HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 pip install "
    "--no-build-isolation horovod (for TensorFlow 2.16 and newer, first delete the line with xla_mpi_ops.cc from its "
    "horovod/tensorflow/CMakeLists.txt), or choose another --strategy"
)


class Horovod(Replicas):
    """Horovod with Gloo as controller and for CPUs; GPUs use NCCL if Horovod was built with it.

    Skip if Horovod is not installed.
    """

    backends = ("tensorflow",)

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        if find_spec("horovod") is None:
            raise Skip(f"Horovod is not installed, and no extra of accelbench contains it: {INSTALL}")

    def start(self) -> None:
        import horovod.tensorflow as hvd

        if not hvd.gloo_built():
            raise Skip(f"this Horovod was built without Gloo, which is needed to connect its processes: {INSTALL}")
        if self.world.size > 1 and not hvd.is_initialized():
            self._connect()
        hvd.init()

    def _connect(self) -> None:
        """Set up what `horovodrun` would: here another launcher has started the processes."""
        connect_directly()
        host, port = Address.parse(self.world.addresses[0])
        rank, size = str(self.world.rank), str(self.world.size)
        os.environ.update(
            HOROVOD_CONTROLLER="gloo",
            HOROVOD_CPU_OPERATIONS="gloo",
            HOROVOD_GLOO_RENDEZVOUS_ADDR=host,
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(port),
            HOROVOD_RANK=rank,
            HOROVOD_SIZE=size,
            # Each process is declared to be on its own host; the collectives used here do not depend on locality.
            HOROVOD_HOSTNAME=f"rank-{rank}",
            HOROVOD_LOCAL_RANK="0",
            HOROVOD_LOCAL_SIZE="1",
            HOROVOD_CROSS_RANK=rank,
            HOROVOD_CROSS_SIZE=size,
        )
        if self.world.interface:
            os.environ.setdefault("HOROVOD_GLOO_IFACE", self.world.interface)
        if self.world.rank == 0:
            from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

            server = RendezvousHTTPServer((host, port), RendezvousHandler, 0)
            Thread(target=server.serve_forever, name="rendezvous", daemon=True).start()

    def built(self, model: Any) -> None:
        import horovod.tensorflow as hvd

        variables = [*model.variables, *model.optimizer.variables]
        hvd.broadcast_variables([variable.value for variable in variables], root_rank=0)

    def add_up(self, gradients: list[Any]) -> list[Any]:
        return self.mean(gradients)

    def mean(self, values: list[Any]) -> list[Any]:
        import horovod.tensorflow as hvd

        return [hvd.allreduce(value, op=hvd.Average) for value in values]
