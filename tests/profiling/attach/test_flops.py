"""Tests of the count of a step's FLOPs on PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.profiling.attach.flops import FlopCount

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]


def trained(counted: bool) -> tuple[list[Any], FlopCount | None]:
    """Train three steps, the second one counted, and return the parameters and the next random number."""
    import torch

    torch.manual_seed(3)
    layers = [torch.nn.Conv1d(4, 8, 3), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 14, 16))
    optimizer, count = torch.optim.Adam(model.parameters()), None
    for step in range(3):
        if counted and step == 1:
            count = FlopCount("torch")
        optimizer.zero_grad()
        model(torch.rand(32, 4, 16)).square().mean().backward()
        optimizer.step()
        if count and step == 1:
            count.end()
    return [*(parameter.detach().numpy().tobytes() for parameter in model.parameters()), torch.rand(1).item()], count


def test_the_count_changes_no_result_and_ends() -> None:
    plain, _ = trained(counted=False)
    results, count = trained(counted=True)
    assert results == plain
    assert count
    product, convolution = 2 * 32 * 8 * 14 * 16, 2 * 32 * 8 * 4 * 3 * 14
    assert count.reason is None
    assert count.flops == {"float32": 3 * product + 2 * convolution}


def test_functions_of_torch_compile_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setitem(counters["frames"], "ok", 1)
    _, count = trained(counted=True)
    assert count
    assert count.reason
    assert not count.flops
