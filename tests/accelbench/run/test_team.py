"""What becomes of the figures of several ranks that measured one point together."""

from __future__ import annotations

from accelbench.run.team import energy_of_all
from profiling.records.quality import Metric
from profiling.records.record import RankRecord


def rank(number: int, node: int, joules: float | None) -> RankRecord:
    metrics = {} if joules is None else {"energy_per_step": Metric(joules, "J")}
    return RankRecord(rank=number, node=node, metrics=metrics | {"test_accuracy": Metric(0.9)})


def test_the_energy_of_a_step_is_that_of_every_ranks_gpu() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 4.0), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "gpu") == {"energy_per_step": Metric(12.0, "J")}


def test_the_ranks_of_a_host_read_the_same_cpus_which_count_once() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 3.1), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "cpu") == {"energy_per_step": Metric(8.0, "J")}


def test_an_energy_that_one_rank_cannot_read_is_unknown() -> None:
    assert energy_of_all([rank(0, 0, 3.0), rank(1, 1, None)], "gpu") == {"energy_per_step": None}
    assert energy_of_all([rank(0, 0, None), rank(1, 1, None)], "gpu") == {}
