"""Hooks of PyTorch: the end of an optimizer's step, and the wait for a `DataLoader`."""

from __future__ import annotations

import sys

from .session import OPTIMIZER, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def hooks(session: Session) -> dict[str, Callable[[ModuleType], object]]:
    """Return the functions to call after the import of PyTorch's modules."""

    def watch_optimizers(module: ModuleType) -> None:
        def stepped(optimizer: Any, arguments: Any, keywords: Any) -> None:
            session.step(OPTIMIZER, "torch", id(optimizer))

        handle = module.register_optimizer_step_post_hook(stepped)
        session.on_detach(handle.remove)
        session.on_synchronize(synchronize)

    def watch_loaders(module: ModuleType) -> None:
        session.watch_iterator(module._BaseDataLoaderIter)

    return {"torch.optim.optimizer": watch_optimizers, "torch.utils.data.dataloader": watch_loaders}


def synchronize() -> None:
    """Wait until all CUDA devices have finished, if the script uses any."""
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
