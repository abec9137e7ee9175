"""Experiment on the exchange of gradients by PyTorch's DDP: for some steps, it takes place in a pause.

DDP exchanges the first gradients while it computes the others. Here, its communication hook keeps them until all are
computed, and exchanges them while the clock is stopped. The collectives and their order are the same as without the
experiment, so the results are the same, and no rank has to know which steps of the others are in the experiment.
"""

from __future__ import annotations

import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class ExchangeExperiment:
    """Steps without the exchange of gradients, and without that of buffers such as the statistics of a batch."""

    def __init__(self, session: Any, steps: int) -> None:
        self._session, self.left = session, steps
        self.refused: str | None = None
        self._exchanges = 0
        self._models: set[int] = set()
        self._removers: list[Callable[[], None]] = []
        module = sys.modules.get("torch.nn.parallel.distributed")
        if module is not None:
            wrapper = module.DistributedDataParallel
            self._removers.append(session.replace(wrapper, "forward", self._called))
            self._removers.append(session.replace(wrapper, "_sync_buffers", self._buffers_exchanged))

    def step_ended(self) -> bool:
        """Return whether the experiment ended with this step."""
        if not self._exchanges and not self.refused:
            self.refused = "no gradients were exchanged by DistributedDataParallel"
        self.left = 0 if self.refused else self.left - 1
        if not self.left:
            self.remove()
        return not self.left

    def remove(self) -> None:
        """End the experiment; DDP's communication hook remains and exchanges each bucket at once."""
        self.left = 0
        while self._removers:
            self._removers.pop()()

    def _called(self, original: Callable[..., Any], model: Any, *arguments: Any, **keywords: Any) -> Any:
        if id(model) not in self._models:
            self._models.add(id(model))
            self._session.guarded(self._add_hook, model)
        return original(model, *arguments, **keywords)

    def _add_hook(self, model: Any) -> None:
        group = model.process_group
        kept: list[Any] = []
        try:
            model.register_comm_hook(kept, lambda kept, bucket: self._exchange(group, kept, bucket))
        except Exception as error:  # noqa: BLE001 - the script has a hook of its own, or DDP refuses hooks
            self.refused = f"DDP takes no communication hook: {error}".partition("\n")[0]

    def _buffers_exchanged(self, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        begin = _now()
        result = original(*arguments, **keywords)
        self._session.pause(_now() - begin)
        return result

    def _exchange(self, group: Any, kept: list[Any], bucket: Any) -> Any:
        """Return the future of a bucket's mean over all ranks, as DDP computes it without a hook."""
        torch: Any = sys.modules["torch"]
        gradients = bucket.buffer().mul_(1.0 / group.size())
        if not self.left and not kept:
            return _all_reduce(group, gradients).get_future().then(lambda done: done.value()[0])
        future = torch.futures.Future(devices=[gradients.device] if gradients.is_cuda else [])
        kept.append((gradients, future))
        if bucket.is_last():
            self._exchange_all(group, kept)
        return future

    def _exchange_all(self, group: Any, kept: list[Any]) -> None:
        begin = _now()
        for work in [_all_reduce(group, gradients) for gradients, _ in kept]:
            work.wait()
        self._session.pause(_now() - begin)
        self._exchanges += 1
        for gradients, future in kept:
            future.set_result(gradients)
        kept.clear()


def _all_reduce(group: Any, gradients: Any) -> Any:
    return sys.modules["torch.distributed"].all_reduce(gradients, group=group, async_op=True)


def _now() -> float:
    """Return the time at which the work so far is finished."""
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.current_stream().synchronize()
    return perf_counter()
