"""Runs the same training in one and in several processes, and compares the results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accelbench.execution.cluster import LOCALHOST
from accelbench.profiling.ranks.channel import free_port
from tests.fixtures.warm import Forked

SECONDS = 240
TOLERANCE = 1e-4
"""Relative: the order of float32 sums changes results by 1e-7, which Adam's steps amplify."""

Found = dict[str, Any]


def start(what: str, backend: str, size: int, *, script: str = "engine_rank", **params: str | int) -> list[Forked]:
    """Start `size` ranks of the script with this job."""
    addresses = [f"{LOCALHOST}:{free_port(LOCALHOST)}" for _ in range(size)]
    ranks = []
    for rank in range(size):
        place = {"rank": rank, "size": size, "local_rank": rank, "local_size": size, "addresses": addresses}
        place |= {"secret": "shared by these ranks", "trusted": True}
        job = {
            "what": what,
            "backend": backend,
            "world": place,
            "params": params | ({"processes": size} if size > 1 else {}),
        }
        ranks.append(Forked(backend, f"tests.workloads.distribution.{script}", json.dumps(job)))
    return ranks


def train(what: str, backend: str, size: int, *, script: str = "engine_rank", **params: str | int) -> list[Found]:
    """Return the results of all ranks."""
    ranks = start(what, backend, size, script=script, **params)
    try:
        spoken = [rank.communicate(timeout=SECONDS) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, complaint) in zip(ranks, spoken, strict=True):
        assert rank.returncode == 0, complaint[-3000:]
    return [json.loads(said.splitlines()[-1]) for said, _ in spoken]


def learnt(metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics that depend on all weights."""
    names = ("weights_sum", "weights_norm", "weights_projection", "final_loss")
    return {name: metrics[name] for name in names}


def assert_learnt_alike(found: dict[str, float], alone: dict[str, float]) -> None:
    """Check that the weights agree; replicas without exchange fail this check."""
    assert learnt(found) == pytest.approx(learnt(alone), rel=TOLERANCE)


def assert_shared_out(ranks: list[dict[str, float]], alone: dict[str, float]) -> None:
    """Check that the ranks' first batches are disjoint, of equal size, and together the first batch of one process."""
    parts = [int(found["first_batch"]) for found in ranks]
    assert sum(parts) == int(alone["first_batch"])
    assert all(part.bit_count() == int(alone["first_batch"]).bit_count() // len(parts) for part in parts)
    assert not any(a & b for i, a in enumerate(parts) for b in parts[:i])


def metrics_of(record: dict[str, Any]) -> list[dict[str, float]]:
    """Return the metrics of each rank."""
    return [{name: metric["value"] for name, metric in rank["metrics"].items()} for rank in record["ranks"]]
