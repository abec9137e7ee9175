"""Gradient exchange of a training workload on a link of known rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import records
from tests.network.hosts import HOSTS, Link, link
from tests.network.test_shaped_links import ranks

GRADIENTS = 4 * 1_199_882
"""Size of the gradients in bytes: with two ranks, a ring all-reduce sends them once per rank."""
SECONDS = 280


def train(on: Link, out: Path) -> dict[str, Any]:
    """Return the record of `cnn-mnist` with a replica on each host."""
    options = ("--no-ceilings", "--trusted-network", "--param", "batch=250", "--param", "epochs=2", "--out", str(out))
    with ranks(on.hosts, "cnn-mnist", "--device", "cpu", *options) as processes:
        outputs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(outputs)
    (record,) = records(out)
    return record


@pytest.mark.alone
@pytest.mark.needs(*HOSTS)
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_the_exchange_time_matches_the_rate_of_the_link(tmp_path: Path) -> None:
    """gRPC and other load can only add to the expected time."""
    found = {}
    for mbit in (1000, 100):
        with link(mbit) as made:
            record = train(made, tmp_path / str(mbit))
            parts = record["parts"]
            found[mbit] = parts
            assert parts["bytes"] == GRADIENTS
            assert [rank["node"] for rank in record["ranks"]] == [0, 1]
            expected = GRADIENTS / made.most(GRADIENTS)
            assert parts["exchange_s"]["alone"] >= 0.95 * expected
            added = sum(parts[name] for name in ("compute_s", "launch_s", "input_s", "wait_s", "exposed_s"))
            assert added == pytest.approx(parts["step_s"], rel=0.05)
            if mbit == 100:
                assert parts["exchange_s"]["alone"] == pytest.approx(expected, rel=0.25)
                assert parts["exposed_s"] >= 0.8 * expected  # tolerance for other load during the comparison of steps
                shares = record["profile"]["bottleneck"]["shares"]
                assert shares["communication"] >= parts["exposed_s"] / parts["step_s"] - 0.01
    assert found[1000]["exchange_s"]["alone"] < found[100]["exchange_s"]["alone"] / 3
