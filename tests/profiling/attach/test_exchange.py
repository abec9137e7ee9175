"""Tests of the experiment on the exchange of gradients, with two real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.profiling.measure.script.events import ScriptEvents
from accelbench.profiling.measure.script.launch import exchange_folder
from tests.conftest import environment

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]
SLOW_S = 0.5
STEPS = 4
RANK = f"""
import sys, time
from pathlib import Path

from accelbench.profiling.attach import torch as torch_hooks
from accelbench.profiling.attach.imports import ImportWatch
from accelbench.profiling.attach.session import Session

rank, folder, observed, own_hook = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "own hook"
session = Session(observed) if observed else None
if session:
    ImportWatch(torch_hooks.hooks(session))

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

dist.init_process_group("gloo", init_method=f"file://{{folder}}/meeting", rank=rank, world_size=2)
torch.manual_seed(3)
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(64, 600), torch.nn.BatchNorm1d(600), torch.nn.Linear(600, 600))
model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.5)
if own_hook:
    model.register_comm_hook(None, allreduce_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
torch.manual_seed(rank)
all_reduce = dist.all_reduce

def slow(*arguments, **keywords):
    time.sleep({SLOW_S} / 3)
    return all_reduce(*arguments, **keywords)

for step in range(10):
    if step == 2 and session:
        session._execute("exchange", "{STEPS}")
        dist.all_reduce = slow
    if step == 2 + {STEPS}:
        dist.all_reduce = all_reduce
    with model.no_sync():
        model(torch.rand(32, 64)).square().mean().backward()
    model(torch.rand(32, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if session:
    session.flush()
print([float(each.double().sum()) for each in model.state_dict().values()])
dist.destroy_process_group()
"""


def trained(folder: Path, observed: list[str], hook: str = "") -> list[str]:
    """Return the outputs of both ranks, with a session in each of the folders `observed`."""
    folder.mkdir()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(folder), observed[rank] if observed else "", hook],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    return outputs


@pytest.mark.parametrize("only_rank_0", [False, True])
def test_the_exchange_is_not_timed_and_the_training_is_the_same(tmp_path: Path, only_rank_0: bool) -> None:
    with exchange_folder() as first, exchange_folder() as second:
        observed = [str(first), "" if only_rank_0 else str(second)]
        outputs = trained(tmp_path / "with", observed)
        assert outputs == trained(tmp_path / "without", [])
        for folder in filter(None, observed):
            events = ScriptEvents(Path(folder))
            events.read()
            assert (events.error, events.unexchanged, events.exchange_refused) == (None, True, None)
            kinds = [step.kind for step in events.steps]
            assert kinds == ["plain", *["unexchanged"] * STEPS, *["plain"] * 4]
            # At least one of the buckets is exchanged in a step, which takes at least SLOW_S / 3.
            assert all(step.seconds < SLOW_S / 3 for step in events.steps if step.kind == "unexchanged")


def test_a_communication_hook_of_the_script_remains(tmp_path: Path) -> None:
    with exchange_folder() as first, exchange_folder() as second:
        outputs = trained(tmp_path / "with", [str(first), str(second)], "own hook")
        assert outputs == trained(tmp_path / "without", [], "own hook")
        events = ScriptEvents(Path(first))
        events.read()
    assert events.unexchanged
    assert events.exchange_refused
