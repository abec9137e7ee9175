"""References, and the comparison of a run with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.__main__ import main
from accelbench.execution.plan import discover
from accelbench.execution.store import RunStore
from accelbench.output.format import read
from accelbench.profiling.machine.vendor_peaks import PREFIXES, cores
from accelbench.profiling.records.environment import Cpu
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.work import Work
from accelbench.references.comparison import ReferenceComparison, compare_with_references
from accelbench.references.reference import OWN, Reference, has_hidden_name, own, published
from accelbench.report.page import render_page
from accelbench.report.stored_run import Run
from tests.conftest import ROOT
from tests.fixtures.report_pages import Tags, page_of, printed
from tests.fixtures.report_records import record, timing
from tests.fixtures.report_runs import environment, make_run

Captured = pytest.CaptureFixture[str]
N = 8192


def product(rate: float, **params: Any) -> Any:
    """Return a record of a matrix product on the GPU at this rate."""
    params = {"impl": "vendor", "dtype": "bfloat16", "n": N} | params
    work = Work(flops=2 * N**3, bytes=6 * N * N)
    return record(
        "matmul", "gpu", params=params, figure="flops", work=work, timing=timing(2 * N**3 / rate, spread=0.001)
    )


def entry(**changes: Any) -> str:
    """Return the TOML text of a reference: the bfloat16 product on an H200."""
    fields = {
        "device": "'H200'",
        "kind": "'gpu'",
        "benchmark": "'matmul'",
        "axes": "{ dtype = ['bfloat16'] }",
        "at_least": "{ n = 4096 }",
        "value": "700e12",
        "unit": "'FLOP/s'",
        "how": "'n = 8192, 1,980 MHz'",
        "date": "'2025-01'",
        "source": "'a page'",
    }
    return "[[reference]]\n" + "".join(f"{name} = {value}\n" for name, value in (fields | changes).items())


def found(path: Path, *entries: str, rate: float = 700e12, **params: Any) -> list[ReferenceComparison]:
    store = make_run(path / "runs" / "A", [product(rate, **params)])
    (path / "runs" / OWN).write_text("\n".join(entries))
    return [
        comparison
        for comparison in Run.of(store).reference_comparisons
        if any(other.source == "a page" for other in comparison.references)
    ]


@pytest.mark.parametrize(
    ("rate", "place", "key"),
    [
        (690e12, "within", "700 TFLOP/s"),
        (640e12, "within", "700 TFLOP/s"),
        (350e12, "below", "50%"),
        (1400e12, "above", "200%"),
    ],
)
def test_a_result_within_10_percent_counts_as_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, place: str, key: str
) -> None:
    monkeypatch.setattr("accelbench.references.comparison.published", lambda: ())
    (comparison,) = found(tmp_path, entry(), rate=rate)
    assert comparison.sentence.startswith(place)
    assert key in comparison.sentence
    assert comparison.normal is (place == "within")


def test_several_references_are_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.references.comparison.published", lambda: ())
    (comparison,) = found(tmp_path, entry(), entry(value="800e12"), entry(value="750e12"), rate=500e12)
    assert comparison.range == "700 TFLOP/s to 800 TFLOP/s"
    assert "71%" in comparison.sentence


@pytest.mark.parametrize(
    "other",
    [
        entry(device="'H100 80GB HBM3'"),
        entry(device="'H20'"),
        entry(kind="'cpu'"),
        entry(benchmark="'gemm'"),
        entry(axes="{ dtype = ['float16'] }"),
        entry(axes="{ mode = ['x'] }"),
        entry(at_least="{ n = 16384 }"),
        entry(unit="'B/s'"),
        entry(backend="'jax'"),
    ],
)
def test_references_of_other_work_and_devices_do_not_apply(tmp_path: Path, other: str) -> None:
    assert found(tmp_path, other) == []


@pytest.mark.parametrize("gpus", [[], ["NVIDIA H200", "NVIDIA L4"], ["NVIDIA H200 MIG 1g.18gb"]])
def test_mig_instances_and_different_gpus_have_no_reference(gpus: list[str]) -> None:
    reference = Reference.model_validate(tomllib.loads(entry(device="'H200.*'"))["reference"][0])
    (card,) = environment().gpus
    cards = [card.model_copy(update={"index": number, "name": name}) for number, name in enumerate(gpus)]
    assert not reference.is_on(environment(gpus=cards))
    assert reference.is_on(environment())


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_a_reference_applies_to_cards_of_its_vendor(tmp_path: Path, vendor: str) -> None:
    fields = tomllib.loads(entry())["reference"][0]
    (card,) = environment().gpus
    here = environment(gpus=[card.model_copy(update={"vendor": vendor})])
    assert Reference.model_validate(fields | {"vendor": vendor}).is_on(here)
    assert Reference.model_validate(fields).is_on(here) is (vendor == "nvidia")
    assert not Reference.model_validate(fields | {"vendor": "intel"}).is_on(here)


def test_another_number_of_cpus_is_another_machine() -> None:
    fields = {"kind": "'cpu'", "device": "'AMD EPYC 9454 48-Core Processor'", "axes": "{}"}
    one, other = (
        Reference.model_validate(tomllib.loads(entry(**fields, cpus=count))["reference"][0]) for count in ("16", "96")
    )
    assert one.is_on(environment())
    assert not other.is_on(environment())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[[reference", OWN),
        ("reference = 3\n", OWN),
        (entry(value="-1"), "value"),
        (entry(value="nan"), "value"),
        (entry(date="'last year'"), "date"),
        (entry(speed="3"), "speed"),
    ],
)
def test_an_invalid_file_is_reported_and_the_rest_is_shown(
    capsys: Captured, tmp_path: Path, text: str, key: str
) -> None:
    store = make_run(tmp_path / "runs" / "A", [product(700e12)])
    (tmp_path / "runs" / OWN).write_text(text)
    assert main(["report", str(store.path)]) == 1
    captured = capsys.readouterr()
    assert key in captured.err
    assert "matmul" in captured.out


@pytest.mark.timeout(60)
@pytest.mark.parametrize("device", ["(a+)+$", ".*", "("])
def test_device_names_of_an_own_file_are_literal(tmp_path: Path, device: str) -> None:
    (tmp_path / OWN).write_text(entry(device=f"'{device}'"))
    (reference,), (card,) = own(tmp_path), environment().gpus
    assert not reference.is_on(environment(gpus=[card.model_copy(update={"name": "a" * 40 + "!"})]))
    assert reference.is_on(environment(gpus=[card.model_copy(update={"name": device})]))


def test_page_and_terminal_show_comparison_and_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.references.comparison.published", lambda: ())
    (tmp_path / OWN).write_text(entry(value="100e12", source="'<b>a page</b>'"))
    page = page_of(tmp_path, [product(700e12)])
    assert "700%" in Tags(page).text
    assert "<b>a page</b>" in Tags(page).text
    assert "700%" in printed(make_run(tmp_path / "B", [product(700e12)]))


def test_a_result_below_the_references_at_the_power_limit_has_a_note_with_the_clock(tmp_path: Path) -> None:
    clock = Gauge(minimum=1371, median=1371, maximum=1371, unit="MHz")
    limited = Telemetry(interval_s=0.1, gauges={"gpu.sm_clock": clock}, counters={}, throttle_reasons=["power limit"])
    for rate, telemetry, noted in ((300e12, limited, True), (2e15, limited, False), (300e12, None, False)):
        measured = product(rate).model_copy(update={"telemetry": telemetry})
        (comparison,) = Run.of(make_run(tmp_path / f"{rate:g} {noted}", [measured])).reference_comparisons
        assert ("1371 MHz" in comparison.note) == noted


def test_a_run_is_contributed_once_and_compared_with_later_runs(capsys: Captured, tmp_path: Path) -> None:
    noisy = product(500e12, n=4096).model_copy(update={"noise": ["power limit reached"]})
    folder = tmp_path / "runs"
    first = make_run(folder / "first", [product(700e12), noisy], run_id="first")
    for _ in range(2):
        assert main(["contribute", str(first.path)]) == 0
        assert OWN in capsys.readouterr().out
    (reference,) = own(folder)
    assert (reference.value, reference.source) == (pytest.approx(700e12, rel=0.01), "run first")
    assert [
        comparison for comparison in Run.of(first).reference_comparisons if reference in comparison.references
    ] == []
    later = Run.of(make_run(folder / "later", [product(705e12), product(705e12, n=4096)], run_id="later"))
    (comparison,) = (comparison for comparison in later.reference_comparisons if reference in comparison.references)
    assert comparison.record.point.params["n"] == N
    make_run(folder / "other", [product(650e12)], run_id="other")
    assert main(["contribute", str(folder / "other")]) == 0
    assert {each.source for each in own(folder)} == {"run first", "run other"}


def test_a_noisy_run_contributes_nothing(capsys: Captured, tmp_path: Path) -> None:
    noisy = product(700e12).model_copy(update={"noise": ["power limit reached"]})
    store = make_run(tmp_path / "runs" / "A", [noisy])
    assert main(["contribute", str(store.path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "runs" / OWN).exists()


@pytest.mark.parametrize(
    ("found", "changes", "reason"),
    [
        (record("launch"), {}, "no verified rate"),
        (product(7e14).model_copy(update={"noise": ["the machine swapped"]}), {}, "all of its 1 rate"),
        (product(7e14), {"gpus": []}, "the name of the device"),
    ],
    ids=["times only", "noisy", "no name"],
)
def test_the_reason_why_nothing_is_contributed_is_one_sentence(
    capsys: Captured, tmp_path: Path, found: Any, changes: dict[str, Any], reason: str
) -> None:
    store = make_run(tmp_path / "runs" / "A", [found], environment=environment(**changes))
    assert main(["contribute", str(store.path)]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_own_references_of_a_hidden_cpu_are_of_the_same_core(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    first = make_run(folder / "first", [peak_arith("all")], run_id="first", environment=zen4())
    assert main(["contribute", str(first.path)]) == 0
    for name, changes, verdict in (("zen4", {}, ["within"]), ("zen3", {"model_number": 1, "isa": ["fma"]}, [])):
        later = make_run(folder / name, [peak_arith("all")], run_id=name, environment=zen4(**changes))
        found = [each for each in Run.of(later).reference_comparisons if each.references[0].is_own]
        assert [each.verdict for each in found] == verdict
        assert all(each.family is None for each in found)


words = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=10)


@given(axes=st.dictionaries(words, st.tuples(words | st.integers(0, 99)), max_size=3), how=words)
def test_written_references_are_read_back(axes: dict[str, Any], how: str) -> None:
    from accelbench.references.contribute import _table

    fields = tomllib.loads(entry())["reference"][0] | {"axes": axes, "how": how}
    reference = Reference.model_validate(fields)
    (again,) = tomllib.loads(_table(reference))["reference"]
    assert Reference.model_validate(again) == reference


def test_published_references_name_existing_benchmarks_axes_and_devices() -> None:
    for reference in published():
        benchmark = discover()[reference.benchmark]
        assert reference.axes.keys() | reference.at_least.keys() <= benchmark.axis_names
        assert reference.kind in benchmark.devices
        assert reference.backend is None or reference.backend in benchmark.backends
        assert reference.core is None or reference.core in {core.title for core in cores()}
        assert reference.source.startswith(("https://", "docs/"))
        assert not PREFIXES.match(reference.device).group()  # type: ignore[union-attr]


def test_own_published_references_are_in_the_page_of_measured_results() -> None:
    sections: dict[str, str] = {}
    for part in re.split(r"^#{2,3} ", (ROOT / "docs/measured.md").read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading = part.partition("\n")[0]
        sections[re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")] = part
    own_ones = [reference for reference in published() if reference.source.startswith("docs/")]
    assert own_ones
    for reference in own_ones:
        page, _, anchor = reference.source.partition("#")
        assert page == "docs/measured.md"
        assert reference.date
        assert re.search(rf"\b{re.escape(read(reference.value, reference.unit).value)}\b", sections[anchor]), reference


def test_without_a_reference_there_is_one_line_with_the_command_that_stores_one(tmp_path: Path) -> None:
    rate = record("nqueens", figure="items", work=Work(items=10.0, item="nodes"))
    noisy = rate.model_copy(update={"noise": ["the machine swapped 12 MiB"]})
    for records, is_advised in (([rate], True), ([noisy], False), ([record("launch")], False)):
        store = make_run(tmp_path / f"{is_advised}{len(records[0].noise)}{records[0].point.benchmark}", records)
        out, page = printed(store), render_page(Run.of(store))
        assert ("accelbench contribute" in " ".join(out.split())) is is_advised
        assert ("accelbench contribute" in page) is is_advised
        assert 'id="normal"' not in page
        assert "Comparison with references" not in out


def zen4(**changes: Any) -> Any:
    cpu = {"model": "AMD EPYC", "usable": 2, "logical": 2} | changes
    return environment(cpu=environment().cpu.model_copy(update=cpu))


def peak_arith(cores: str) -> Any:
    """Return a record of the arithmetic peak of one core or all cores: 60 GFLOP/s in float64."""
    fields = {"params": {"dtype": "float64", "cores": cores}, "figure": "flops", "work": Work(flops=60e9)}
    return record("peak-arith", timing=timing(1.0, spread=0.001), **fields)


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("AMD EPYC", True),
        ("AMD EPYC-Milan Processor", True),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", True),
        ("Intel Xeon Processor (Skylake, IBRS)", True),
        ("QEMU Virtual CPU version 2.5+", True),
        ("AMD EPYC 7B12", False),
        ("AMD EPYC 9R14", False),
        ("Intel(R) Xeon(R) Gold 6354 CPU @ 3.00GHz", False),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", False),
        ("Neoverse-N1", False),
    ],
)
def test_a_name_without_a_model_number_is_hidden(name: str, is_hidden: bool) -> None:
    assert has_hidden_name(Cpu(model=name, architecture="x86_64", logical=2, usable=2)) is is_hidden


@pytest.mark.parametrize(
    ("changes", "cores", "verdict"),
    [
        ({}, "one", "within"),
        ({"usable": 4, "logical": 4}, "one", "within"),
        ({}, "all", None),
        ({"model": "AMD EPYC 9654 96-Core Processor"}, "one", None),
        ({"model_number": 1, "isa": ["fma"]}, "one", "above"),
    ],
    ids=["one core", "other number of CPUs", "all cores", "a known name", "another core"],
)
def test_a_cpu_with_a_hidden_name_is_compared_with_its_family(
    tmp_path: Path, changes: dict[str, Any], cores: str, verdict: str | None
) -> None:
    store = make_run(tmp_path / "runs" / "A", [peak_arith(cores)], environment=zen4(**changes))
    run = Run.of(store)
    assert [each.verdict for each in run.reference_comparisons] == [verdict] * (verdict is not None)
    for each in run.reference_comparisons:
        assert each.family in each.sentence
    assert compare_with_references(run.info, run.records, None) == ()  # a limit of the gate is of the same device


def test_bars_have_the_scale_of_the_largest_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.references.comparison.published", lambda: ())
    (comparison,) = found(tmp_path, entry(value="400e12"), entry(value="800e12"), rate=200e12)
    assert [round(bar.share, 2) for bar in comparison.bars] == [0.25, 1.0, 0.5]
    assert [bool(bar.detail) for bar in comparison.bars] == [False, True, True]
    tags = Tags(render_page(Run.of(RunStore.open(tmp_path / "runs" / "A")))).tags
    widths = [attributes["style"] for tag, attributes in tags if (attributes.get("style") or "").startswith("width: ")]
    assert {"width: 100.0%", "width: 50.0%"} <= set(widths)


def test_a_lower_bound_below_the_references_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.references.comparison.published", lambda: ())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / OWN).write_text(entry())
    for rate, count in ((350e12, 0), (700e12, 1)):
        slow = product(rate)
        bound = slow.model_copy(update={"timing": slow.timing.model_copy(update={"upper_bound": "only 2 samples"})})
        run = Run.of(make_run(tmp_path / "runs" / f"{rate:g}", [bound]))
        assert len(run.reference_comparisons) == count
