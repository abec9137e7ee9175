"""Tests of the times of a step's parts on PyTorch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling.attach import torch as torch_hooks
from accelbench.profiling.attach.imports import ImportWatch
from accelbench.profiling.attach.session import Session
from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]
SLEEP_S = 0.01


def trained(slow: str | None) -> list[bytes]:
    """Train eight steps with two backward passes each, and return the parameters; `slow` is a part that sleeps."""
    import torch

    def sleep(part: str) -> None:
        if part == slow:
            time.sleep(SLEEP_S)

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: sleep("optimizer"))
    for _ in range(8):
        optimizer.zero_grad()
        for _ in range(2):
            loss = model(torch.rand(4, 8)).square().mean()
            loss.register_hook(lambda _: sleep("backward"))
            sleep("forward")
            loss.backward()
        optimizer.step()
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


@pytest.mark.parametrize("slow", [None, "forward", "backward", "optimizer"])
def test_the_time_belongs_to_its_part_and_results_are_the_same(slow: str | None) -> None:
    import torch

    plain: Any = torch.autograd.backward
    with exchange_folder() as folder:
        session = Session(str(folder))
        ImportWatch(torch_hooks.hooks(session))
        session._execute("parts", "5")
        results = trained(slow)
        session.flush()
        events = ScriptEvents(Path(folder))
        events.read()
        assert events.parted
        assert torch.autograd.backward is plain
        session.detach()
    assert results == trained(None)
    assert sorted(events.parts) == [1, 2, 3, 4, 5]
    for input_s, *rest in events.parts.values():
        times = dict(zip(("forward", "backward", "optimizer"), rest, strict=True))
        assert input_s == 0
        expected = {"optimizer": 1}.get(slow or "", 2) * SLEEP_S
        assert slow is None or (times[slow] or 0) >= expected
        assert all(seconds and seconds > 0 for seconds in times.values())
