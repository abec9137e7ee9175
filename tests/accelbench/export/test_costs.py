"""Tests of the costs of training runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.export.costs import HourlyPrice, TrainingCost, training_costs
from accelbench.profiling.records.quality import Metric
from tests.fixtures.compare_runs import measured, samples
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [("2.49/h", 2.49, ""), (" 3 eur / h", 3.0, "EUR"), ("0.5$/h", 0.5, "$")],
)
def test_prices_are_read(text: str, amount: float, currency: str) -> None:
    assert HourlyPrice.parse(text) == HourlyPrice(amount, currency)


@pytest.mark.parametrize("text", ["2.49", "/h", "-1/h", "nan/h", "1/day", "1e3/h", "1 EURO/h"])
def test_other_prices_are_errors(text: str) -> None:
    with pytest.raises(UserError, match="--price"):
        HourlyPrice.parse(text)


def test_the_cost_is_the_price_of_the_time_of_a_million_items() -> None:
    record = training("gpu", "float32", 0.01, metrics={"energy_per_1000_images": Metric(500.0, "J")})
    rate = record.rate("items")
    assert rate
    cost = TrainingCost.of(record, HourlyPrice(3.6))
    assert cost is not None
    assert cost.per_million == pytest.approx(1e6 / rate * 0.001)
    assert (cost.item, cost.energy_per_item_j) == ("images", 0.5)
    without = TrainingCost.of(training("cpu", "float32", 0.01), HourlyPrice(3.6))
    assert without is not None
    assert without.energy_per_item_j is None


def test_kernels_have_no_cost() -> None:
    with pytest.raises(UserError, match="training"):
        training_costs([measured(samples(1.0))], HourlyPrice(1.0))


def test_the_report_has_the_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", [training("cpu", "float32", 0.01)])
    words = ["report", str(tmp_path / "run"), "--price", "2 EUR/h"]
    assert main([*words, "--format", "json"]) == 0
    costs = json.loads(capsys.readouterr().out)["costs"]
    assert (costs["price_per_hour"], costs["currency"]) == (2.0, "EUR")
    (cost,) = costs["runs"]
    assert cost["per_million"] > 0
    assert main(words) == 0
    assert "EUR (images)" in " ".join(capsys.readouterr().out.split())
    assert main([*words[:-1], "2"]) == 2
