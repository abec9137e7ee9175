"""Times of the parts of a step that do not wait for other ranks: input, forward, backward and optimizer of PyTorch.

The hooks exist for the requested steps only. Other frameworks compile a step with its exchange of gradients, so that
only the wait for input is known.
"""

from __future__ import annotations

import sys
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class PartTimer:
    """Timer of the parts of a number of steps, each from the end of the previous one."""

    def __init__(self, session: Any, steps: int, framework: str | None) -> None:
        self._session, self._left = session, steps
        self._removers: list[Callable[[], None]] = []
        self._torch = sys.modules["torch"] if framework == "torch" else None
        self._begin_step(perf_counter())
        if self._torch is not None:
            self._add_hooks(self._torch)

    def _begin_step(self, now: float) -> None:
        self._forward = self._backward = self._optimizer = 0.0
        self._begin: float | None = now
        """Begin of the part before the next backward pass; None in a backward pass."""

    def step_ended(self, number: int, wait_s: float) -> bool:
        """Report the parts of the step with this number; return whether it was the last one."""
        now = self._now()
        optimizer_s = now - self._optimizer if self._optimizer else 0.0
        times = (self._forward - wait_s, self._backward, optimizer_s) if self._backward else (None, None, None)
        self._session.emit("part", number, wait_s, *times)
        self._begin_step(self._now())
        self._left -= 1
        if not self._left:
            self.remove()
        return not self._left

    def remove(self) -> None:
        """Remove the hooks."""
        while self._removers:
            self._removers.pop()()

    def _add_hooks(self, torch: Any) -> None:
        handle = sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(self._optimizer_begins)
        self._removers += [handle.remove, self._session.replace(torch.autograd, "backward", self._backward_pass)]
        if (module := sys.modules.get("torch.nn.parallel.distributed")) is not None:
            wrapper = module.DistributedDataParallel
            self._removers.append(self._session.replace(wrapper, "_sync_buffers", self._exchanged))

    def _backward_pass(self, original: Callable[..., Any], tensors: Any, *arguments: Any, **keywords: Any) -> Any:
        """Time the computation of gradients, up to the wait for the other ranks at its end."""
        root = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        node = getattr(root, "grad_fn", None)
        if self._begin is None or node is None:
            return original(tensors, *arguments, **keywords)
        begin = self._now()
        self._forward += begin - self._begin
        self._begin, ended = None, []
        engine = self._torch.autograd.Variable._execution_engine  # type: ignore[union-attr]
        # The engine calls its callbacks in order, and DDP adds the one that waits when all gradients are computed.
        end = lambda: ended.append(self._now())  # noqa: E731
        handle = node.register_prehook(lambda gradients: engine.queue_callback(end))
        try:
            result = original(tensors, *arguments, **keywords)
        finally:
            handle.remove()
        self._backward += (ended[0] if ended else self._now()) - begin
        self._begin = self._now()
        return result

    def _exchanged(self, original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Leave the exchange of buffers out of the part before the backward pass."""
        begin = self._now()
        result = original(*arguments, **keywords)
        if self._begin is not None:
            self._begin += self._now() - begin
        return result

    def _optimizer_begins(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        self._optimizer = self._now()

    def _now(self) -> float:
        """Return the time at which the work so far is finished, without waiting for the exchange on a GPU."""
        if self._torch is not None and self._torch.cuda.is_initialized():
            self._torch.cuda.current_stream().synchronize()
        return perf_counter()
