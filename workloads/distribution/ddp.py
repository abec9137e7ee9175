"""PyTorch's DistributedDataParallel: one replica per process; gradients are averaged during the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from accelbench.profiling.benchmark import Exchange
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.ranks.rendezvous import listen
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.sockets import connect_directly
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.distribution.watch import watched


class Ddp(Strategy):
    """Keras's `fit` on PyTorch with a training step that runs through DDP."""

    backends = ("torch",)
    only = {"devices": (1,)}
    automatic = True

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas = self.world.size
        self._replica: Any = None

    def start(self) -> None:
        import torch
        from torch import distributed

        if distributed.is_initialized():
            return  # initialised by an earlier point of this process
        if self.world.size > 1:
            connect_directly()
        distributed.init_process_group(
            "nccl" if torch.cuda.is_available() else "gloo",
            store=self._store(),
            rank=self.world.rank,
            world_size=self.world.size,
        )

    def _store(self) -> Any:
        """Return the rendezvous store, bound to rank 0's address; PyTorch's own binds to all addresses."""
        from torch import distributed

        host, port = Address.parse(self.world.addresses[0])
        own = None
        if self.world.rank == 0:
            listener = listen(Address(host, port))
            port, own = listener.getsockname()[1], listener.detach()
        return distributed.TCPStore(host, port, self.world.size, own is not None, master_listen_fd=own)

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        return self._fit(model, batches, epochs, [_average_over_replicas(), *callbacks])

    def _fit(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        model.train_step = self._step(model, batches)
        return super().train(model, watched(batches), epochs, callbacks)

    def _step(self, model: Any, batches: Feed) -> Callable[[Any], dict[str, Any]]:
        """Return the replacement of Keras's training step."""
        return partial(train_step, self._replicated(model), model)

    def _replicated(self, model: Any) -> Any:
        """Return the model wrapped in DDP, with the weights of rank 0."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        if self._replica is None or self._replica.module is not model:
            # Gradients are views of DDP's buckets, which saves a copy.
            self._replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
            if self.world.size > 1:
                # Dropout must differ between replicas.
                torch.manual_seed(self.point.seed + self.world.rank)
        return self._replica

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        if self.replicas == 1:
            return None
        learning = [variable.value for variable in model.trainable_variables]
        size = sum(tensor.numel() * tensor.element_size() for tensor in learning)
        return Exchange(
            partial(self._train_without_exchange, model, batches),
            _IsolatedBuckets(partial(self._replicated, model)),
            size,
        )

    def _train_without_exchange(self, model: Any, batches: Feed, callbacks: list[Any]) -> None:
        with self._replicated(model).no_sync():
            self._fit(model, batches, int(self.point["epochs"]), callbacks)


def train_step(
    replica: Any, model: Any, data: tuple[Any, Any], *, after_gradients: Callable[[], object] | None = None
) -> dict[str, Any]:
    """Run the step of Keras's guide `custom_train_step_in_torch`, calling the model through its replica."""
    import torch

    x, y = data
    replica.zero_grad()
    predicted = replica(x, training=True)
    loss = model.compute_loss(x=x, y=y, y_pred=predicted)
    model.optimizer.scale_loss(loss).backward()
    if after_gradients:
        after_gradients()
    learning = model.trainable_weights
    with torch.no_grad():
        model.optimizer.apply([variable.value.grad for variable in learning], learning)
    (tracker,) = (metric for metric in model.metrics if metric.name == "loss")
    tracker.update_state(loss)
    found: dict[str, Any] = model.compute_metrics(x, y, predicted)
    return found


def _average_over_replicas() -> Any:
    """Return a Keras callback that averages each epoch's metrics over all replicas.

    It also averages the moving averages of normalisation layers, which have no gradient.
    """
    import keras
    import torch
    from torch import distributed

    class EpochAverages(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
            with torch.no_grad():
                for variable in self.model.metrics_variables:  # sums and counts
                    distributed.all_reduce(variable.value)
                for variable in self.model.non_trainable_weights:
                    if variable.value.is_floating_point():
                        distributed.all_reduce(variable.value.div_(distributed.get_world_size()))
            (logs if logs is not None else {}).update(
                {name: float(value) for name, value in self.model.get_metrics_result().items()}
            )

    return EpochAverages()


class _IsolatedBuckets:
    """All-reduce of random numbers, in buckets of the sizes that DDP uses for the gradients."""

    def __init__(self, replica: Callable[[], Any]) -> None:
        self._replica = replica

    def __call__(self) -> None:
        import torch
        from torch import distributed

        size = distributed.get_world_size()
        for work in [distributed.all_reduce(bucket.div_(size), async_op=True) for bucket in self._buckets]:
            work.wait()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    @cached_property
    def _buckets(self) -> list[Any]:
        import torch

        replica = self._replica()
        like = next(parameter for parameter in replica.parameters() if parameter.requires_grad)
        found = replica._get_ddp_logging_data()
        # After the first step DDP reorders its buckets by the order in which gradients become ready.
        sizes = found.get("rebuilt_bucket_sizes") or found["bucket_sizes"]
        return [
            torch.randn(int(size) // like.element_size(), dtype=like.dtype, device=like.device)
            for size in sizes.split(",")
        ]
