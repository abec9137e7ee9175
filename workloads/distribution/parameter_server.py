"""TensorFlow's ParameterServerStrategy: workers fetch the weights from one process and send it their updates."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from accelbench.profiling.benchmark import Serving, Skip
from accelbench.profiling.ranks.channel import Address, Channel
from accelbench.profiling.ranks.rendezvous import connect, gather, listen
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution import tensorflow_loop
from accelbench.workloads.distribution.sockets import connect_directly, require_trusted_network
from accelbench.workloads.distribution.tensorflow_loop import OwnLoop

FEWEST = 3
"""Minimum number of processes: a coordinator, a parameter server and a worker."""
RENDEZVOUS_SECONDS = 180.0
"""Time limit of the rendezvous in seconds; importing TensorFlow takes some processes longer than others."""


class ParameterServer(OwnLoop):
    """Asynchronous training: rank 0 coordinates, rank 1 stores the weights, and all others are workers.

    A step is one worker's update of the weights with one full batch. One update per worker is in flight, and workers
    wait for each other only at the end of an epoch, so `scaling` has no effect. Rank 0 produces and sends the batches,
    because input pipelines in Python cannot move to workers. Skip for fewer than three processes. XLA cannot compile a
    step with weights in another process.
    """

    backends = ("tensorflow",)
    only = {"devices": (1,), "jit_compile": ("auto", "off"), "device": ("cpu", "gpu")}

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self._updates: dict[Any, Any] = {}
        """Compiled update of each optimizer."""
        if self.world.size < FEWEST:
            raise Skip(
                f"strategy=parameter-server needs at least {FEWEST} processes (a coordinator, a parameter server and "
                f"workers), and this point has {self.world.size}"
            )

    def start(self) -> None:
        import tensorflow as tf

        require_trusted_network()
        connect_directly()
        coordinator, server, *workers = self.world.addresses
        cluster = tf.train.ClusterSpec({"chief": [coordinator], "ps": [server], "worker": workers})
        if self.world.rank > 0:
            job, task = ("ps", 0) if self.world.rank == 1 else ("worker", self.world.rank - 2)
            self._server = tf.distribute.Server(cluster, job_name=job, task_index=task, protocol="grpc")
            chief = connect(Address.parse(coordinator), RENDEZVOUS_SECONDS, self.world.secret, rank=self.world.rank)
            self.serving = Serving(partial(_until_closed, chief))
            return
        # TensorFlow listens at this address afterwards. The connections close when this process ends.
        with listen(Address.parse(coordinator)) as listener:
            self._others = gather(listener, range(1, self.world.size), RENDEZVOUS_SECONDS, self.world.secret)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type="chief", task_id=0, rpc_layer="grpc"
        )
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)

    @property
    def layout(self) -> Layout:
        return replace(super().layout, replicas=self.world.size - 2)

    @property
    def share(self) -> slice:
        return slice(None)

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        update = self._update(model, batches)

        def results() -> Iterator[Any]:
            """Yield the pending result of each batch's update, while every worker has an update in flight."""
            pending: deque[Any] = deque()
            for number, batch in enumerate(batches.data, start=1):
                pending.append(self._coordinator.schedule(update, args=(batch,)))
                # An epoch waits for all of its updates; a late one would count in the next epoch's metrics.
                under_way = 0 if number % batches.steps == 0 else self.world.size - 3
                while len(pending) > under_way:
                    yield pending.popleft()

        seen: Counter[str] = Counter()

        def epoch_means(result: Any) -> tensorflow_loop.Logs:
            """Return the means over the epoch's batches so far, which are all of one size."""
            seen.update(result.fetch())
            seen["batches"] += 1
            return {name: total / seen["batches"] for name, total in seen.items() if name != "batches"}

        self._coordinator.join()  # in case an earlier training was interrupted
        ours = replace(batches, make=results)
        return tensorflow_loop.train(model, ours, epochs, callbacks, epoch_means, seen.clear, lambda logs: logs)

    def _update(self, model: Any, batches: Feed) -> Any:
        import tensorflow as tf

        if model.optimizer not in self._updates:
            with self._strategy.scope():
                tensorflow_loop.build(model, batches)

            def learn(batch: Any) -> tensorflow_loop.Logs:
                gradients, logs = tensorflow_loop.gradients(model, batch, batch_only=True)
                model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                return logs

            @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
            def update(batch: Any) -> Any:
                return self._strategy.run(learn, args=(batch,))

            self._updates[model.optimizer] = update
        return self._updates[model.optimizer]


def _until_closed(coordinator: Channel) -> None:
    """Wait until the coordinator closes the channel or ends."""
    while coordinator.open:
        coordinator.read()
