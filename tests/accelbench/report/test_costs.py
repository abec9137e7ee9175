"""Costs of training runs, in report and studies, and the prices of `--price`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from accelbench.__main__ import main
from accelbench.errors import UserError
from accelbench.output.format import UNKNOWN
from accelbench.profiling.records.quality import Metric, Quality
from accelbench.profiling.records.record import Record
from accelbench.report.joined import Joined
from accelbench.report.prices import ALL, HourlyPrice, parse_prices, prices_of
from accelbench.report.sections.costs import TrainingCost, find_costs
from tests.fixtures.made_up_runs import card, machine, run_of, trained
from tests.fixtures.report_records import record, stepped, timing, training
from tests.fixtures.report_runs import make_run

PER_SECOND = HourlyPrice(3600.0, "EUR")
"""Price with which costs are seconds."""
TIMES = {
    "epoch": Metric(10.0, "s"),
    "training": Metric(120.0, "s"),
    "compile": Metric(20.0, "s"),
    "time_to_target": Metric(40.0, "s"),
    "target_test_accuracy": Metric(0.93),
    "test_accuracy": Metric(0.9731),
}


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [("2.49/h", 2.49, ""), (" 3 eur / h", 3.0, "EUR"), ("0.5$/h", 0.5, "$")],
)
def test_prices_are_read(text: str, amount: float, currency: str) -> None:
    assert HourlyPrice.parse(text) == HourlyPrice(amount, currency)


@pytest.mark.parametrize(
    "text", ["2.49", "/h", "-1/h", "nan/h", "1/day", "1e3/h", "1 EURO/h", "0/h", "0.00 EUR/h", "9" * 400 + "/h", ""]
)
def test_other_prices_are_errors(text: str) -> None:
    with pytest.raises(UserError, match="--price"):
        HourlyPrice.parse(text)


def test_a_price_is_of_all_runs_or_of_the_named_one() -> None:
    prices = parse_prices(["2 EUR/h", "runs/a=b/=3 EUR/h"])
    assert prices == {ALL: HourlyPrice(2.0, "EUR"), "runs/a=b": HourlyPrice(3.0, "EUR")}
    found = prices_of(prices, [["one", "runs/one"], ["two", "runs/a=b//"]])
    assert [price and price.amount for price in found] == [2.0, 3.0]
    assert prices_of({}, [["one"]]) == (None,)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["1/h", "2/h"], ["all runs"]),
        (["a=1/h", "a/=2/h"], ["a"]),
        (["a=1 EUR/h", "b=1 USD/h"], ["EUR", "USD"]),
        (["1 EUR/h", "b=1/h"], ["EUR", "none"]),
        (["=1/h"], ["RUN=1/h"]),
        (["a=1"], ["'1'"]),
    ],
)
def test_contradicting_prices_are_errors(texts: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        parse_prices(texts)
    assert all(word in str(raised.value) for word in words)


def test_a_price_of_no_run_or_two_prices_of_one_run_are_errors() -> None:
    with pytest.raises(UserError, match=r"other.*one, two"):
        prices_of({"other": PER_SECOND}, [["one", "id1"], ["two", "id2"]])
    with pytest.raises(UserError, match="one and id1"):
        prices_of({"one": PER_SECOND, "id1": PER_SECOND}, [["one", "id1"]])


def cost_of(found: Record, price: HourlyPrice | None = PER_SECOND) -> TrainingCost:
    run = run_of(found)
    return TrainingCost("here", run.machine, run.rows[0], price)


def test_costs_are_the_price_times_the_measured_times() -> None:
    cost = cost_of(training("gpu", "float32", 0.01, metrics=TIMES | {"energy_per_1000_images": Metric(500.0, "J")}))
    rate = cost.row.record.rate_interval("items")
    assert rate
    assert cost.per_million == pytest.approx((1e6 / rate[0], 1e6 / rate[2], 1e6 / rate[1]))
    assert cost.epoch
    assert cost.training
    assert cost.to_target
    assert [cost.epoch.value, cost.training.value, cost.to_target.value] == pytest.approx([10.0, 120.0, 40.0])
    assert cost.epoch.low == pytest.approx(10.0 * rate[0] / rate[2])
    assert cost.epoch.high == pytest.approx(10.0 * rate[0] / rate[1])
    assert cost.training.high == pytest.approx(20 + 100 * rate[0] / rate[1]), "compilation has no interval"
    assert (cost.item, cost.energy_per_item_j) == ("images", 0.5)
    cells = cost.cells()
    assert cells["trained model"].text == "120 EUR"
    assert cells["to target"].notes[-1] == "accuracy ≥ 0.930"
    assert "0.9731 (0.9" in cost.quality


def test_a_bound_of_the_rate_is_a_bound_of_the_costs_and_of_the_energy() -> None:
    bound = stepped(timing(0.01, timer="steps", stop="epochs done", upper_bound="2 of 40 blocks were clean"))
    metrics = TIMES | {"energy_per_1000_images": Metric(500.0, "J")}
    cost = cost_of(training("gpu", "float32", 0.01, timing=bound, metrics=metrics))
    cells = cost.cells()
    assert all(cells[title].text.startswith("≤ ") for title in cells if title != "per hour")
    assert "±" not in "".join(note for cell in cells.values() for note in cell.notes)
    epoch = cost.facts()["epoch"]
    assert (epoch["low"], epoch["high"]) == (None, pytest.approx(10.0))


def test_a_noisy_training_has_noisy_costs() -> None:
    cells = cost_of(training("cpu", "float32", 0.01, metrics=TIMES, noise=["steal: 9 %"])).cells()
    assert cells["per epoch"].text == "~10.0 EUR"


def test_a_target_of_a_loss_and_one_that_was_not_reached() -> None:
    metrics = {"target_test_loss": Metric(0.5), "training": Metric(120.0, "s")}
    qualities = [Quality("test_loss", headline=True, better="lower")]
    cost = cost_of(training("cpu", "float32", 0.01, metrics=metrics, qualities=qualities))
    assert cost.cells()["to target"] == ("not reached", ("loss ≤ 0.500",))
    assert cost.facts()["to_target"] is None


def test_several_trainings_in_a_record_are_divided() -> None:
    found = trained("bilstm-har", "cpu", 0.1, data=training("cpu", "float32", 1).data)
    assert found.data
    several = found.model_copy(update={"data": found.data.__class__(**vars(found.data) | {"trainings": 5})})
    one, fifth = cost_of(found).training, cost_of(several).training
    assert one
    assert fifth
    assert fifth.value == pytest.approx(one.value / 5)


def test_unknown_costs_are_unknown() -> None:
    cost = cost_of(training("cpu", "float32", 0.01, metrics={}))
    assert (cost.epoch, cost.training, cost.to_target, cost.energy_per_item_j) == (None, None, None, None)
    unpriced = cost_of(training("cpu", "float32", 0.01, metrics=TIMES), None)
    assert {cell.text for cell in unpriced.cells().values()} == {UNKNOWN}


def embryo(device: str, seconds: float, epochs: int = 25, **changes: Any) -> Record:
    return trained("deep-mnist-embryo", device, seconds, epochs=epochs, visible="all", held="nothing", **changes)


def test_the_same_training_on_several_systems_is_together() -> None:
    cpu = run_of(embryo("cpu", 0.5, 1), embryo("cpu", 0.5, 25), where=machine(2))
    gpu = run_of(embryo("gpu", 0.01, 1), embryo("gpu", 0.01, 25))
    table = find_costs(Joined((cpu, gpu), (HourlyPrice(0.4), None)))
    assert table
    assert [(cost.run, cost.row.record.point["epochs"]) for cost in table.costs] == [
        ("cpu", 1),
        ("gpu", 1),
        ("cpu", 25),
        ("gpu", 25),
    ]
    assert [fact["training"] is None for fact in table.facts()["runs"]] == [False, True, False, True]
    assert find_costs(Joined((cpu, gpu))) is None
    assert find_costs(Joined((cpu,), (HourlyPrice(0.4),)), {"cnn-mnist"}) is None


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write two systems with training runs, and a run without any, below the current folder."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "slow", [embryo("cpu", 0.5)], run_id="cpu-1", device="cpu", environment=machine(2))
    make_run(tmp_path / "fast", [embryo("gpu", 0.01)], run_id="gpu-1", environment=machine(8, [card()]))
    make_run(tmp_path / "kernels", [record("matmul")], run_id="cpu-2", device="cpu", environment=machine(2))
    return tmp_path


@pytest.mark.usefixtures("stored")
def test_the_report_of_a_run_has_the_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "slow", "--price", "2 EUR/h", "--format", "json"]) == 0
    costs = json.loads(capsys.readouterr().out)["costs"]
    assert costs["currency"] == "EUR"
    (cost,) = costs["runs"]
    assert (cost["price_per_hour"], cost["training"]["amount"]) == (2.0, pytest.approx(50 * 2 / 3600))
    assert 'id="costs"' in Path("slow/report.html").read_text(encoding="utf-8")
    assert main(["report", "slow", "--price", "2 EUR/h"]) == 0
    assert "0.02778 EUR" in capsys.readouterr().out
    assert main(["report", "slow"]) == 0
    assert 'id="costs"' not in Path("slow/report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("stored")
def test_each_run_of_a_joint_report_has_its_own_price(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["report", "slow", "fast", "--price", "slow=0.4 EUR/h", "--price", "gpu-1=2.5 EUR/h", "--out", "page.html"]
    assert main([*words, "--format", "json"]) == 0
    slow, fast = json.loads(capsys.readouterr().out)["costs"]["runs"]
    assert slow["training"]["amount"] == pytest.approx(50 * 0.4 / 3600)
    assert fast["training"]["amount"] == pytest.approx(1 * 2.5 / 3600)
    page = Path("page.html").read_text(encoding="utf-8")
    assert re.findall(r'data-label="per hour" class="figure"><strong>([^<]+)<', page) == ["0.400 EUR", "2.50 EUR"]


@pytest.mark.usefixtures("stored")
def test_a_study_has_a_table_of_systems_with_price_and_cost_of_a_trained_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["reproduce", "lawrence2017", "slow", "fast", "--price", "0.4 USD/h", "--price", "fast=2.5 USD/h"]
    assert main([*words, "--page", "page.html"]) == 0
    printed = capsys.readouterr().out
    assert "0.005556 USD" in printed
    page = Path("page.html").read_text(encoding="utf-8")
    assert re.findall(r'data-label="trained model" class="figure"><strong>([^<]+)<', page) == [
        "0.005556 USD",
        "0.0006944 USD",
    ]
    assert main([*words, "--page", "page.html", "--format", "json"]) == 0
    systems = json.loads(capsys.readouterr().out)["costs"]["runs"]
    assert [system["price_per_hour"] for system in systems] == [0.4, 2.5]
    assert main(["reproduce", "lawrence2017", "slow", "--page", "page.html"]) == 0
    assert 'id="costs"' not in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "slow", "--price", "2"], "'2'"),
        (["report", "slow", "--price", "fast=2/h"], "fast"),
        (["report", "kernels", "--price", "2/h"], "training"),
        (["report", "slow", "kernels", "--price", "2/h", "--price", "kernels=1/h"], "kernels"),
        (["reproduce", "lawrence2017", "kernels", "--price", "2/h"], "deep-mnist-embryo"),
        (["reproduce", "lawrence2017", "--price", "2/h"], "stored runs"),
    ],
)
def test_a_price_without_a_training_run_is_an_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
