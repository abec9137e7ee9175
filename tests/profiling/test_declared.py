"""Declarations of benchmarks: axis names have no meaning, and an incomplete declaration is refused."""

from __future__ import annotations

from functools import partial
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from accelbench.profiling import benchmark as declaration
from accelbench.profiling.analysis.course import TimeCourse
from accelbench.profiling.analysis.roofline import ceilings, share_of_ceiling, share_of_peak
from accelbench.profiling.benchmark import Benchmark, Task, axis, implementations
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.rows import make_rows

WIDTHS = {"breit": "float64", "schmal": "float32"}


def spin(point: Point, flops: float = 2000.0) -> Task:
    def run() -> None:
        sum(range(2000))

    return Task(run, lambda: Verification(passed=True, method="none"), Work(flops=flops, bytes=8000.0))


def benchmark(name: str, flops: float = 2000.0, **declaration: Any) -> Benchmark:
    axes = {"zahlenart": tuple(WIDTHS), "kerne": ("einer", "alle")}
    facts: dict[str, Any] = {
        "metric": "flops",
        "bound": "arithmetic",
        "dtype": lambda point: WIDTHS[point["zahlenart"]],
        "cores": lambda point: "one" if point["kerne"] == "einer" else "all",
    }
    return Benchmark(name, partial(spin, flops=flops), ("cpu",), axes, **facts | declaration)


def measured(of: Benchmark, numbers: str, cores: str) -> Record:
    record = measure(of, Point(of.name, "cpu", {"zahlenart": numbers, "kerne": cores}), collect(), 0.05)
    assert record.status == "measured", record.reason
    assert record.timing is not None
    # On a busy machine, the result would be noisy, or a bound.
    clean = record.timing.model_copy(update={"upper_bound": None, "causes": None})
    return record.model_copy(update={"noise": [], "timing": clean})


def test_shares_do_not_depend_on_axis_names() -> None:
    limits = benchmark("limits", flops=2e6, ceiling=True)
    pairs = [(numbers, cores) for numbers in WIDTHS for cores in ("einer", "alle")]
    bounds = [measured(limits, *pair) for pair in pairs]
    # The same time for all and without noise, because noisy ceilings are not used.
    bounds = [bound.model_copy(update={"timing": bounds[0].timing}) for bound in bounds]
    found = measured(benchmark("fft"), "breit", "einer")
    (own,) = (record for record in bounds if record.point.params == found.point.params)
    share = share_of_ceiling(found, ceilings(bounds, [TimeCourse("steady")] * len(bounds)))
    rate, bound = found.rate(), own.rate()
    assert rate
    assert bound
    assert share.of == "float64 arithmetic of one core"
    assert share.value == pytest.approx(rate / bound)
    assert "one core" in str(share_of_peak(found).reason)
    (row,) = make_rows([found])
    assert "float64" in str(row.of_ceiling.reason)


def test_the_bound_survives_serialisation() -> None:
    found = measured(benchmark("fft"), "schmal", "alle")
    assert Record.model_validate_json(found.model_dump_json()).bound == found.bound
    assert (found.bound.resource, found.bound.dtype, found.bound.cores) == ("arithmetic", "float32", "all")


@pytest.mark.parametrize(
    ("declaration", "key"),
    [
        ({"bound": None}, "rate of flops: .*unbounded="),
        ({"metric": "bytes", "bound": None}, "rate of bytes: .*unbounded="),
        ({"dtype": None}, "declare dtype"),
        ({"unbounded": "it lies in a cache"}, "bound and unbounded"),
        ({"layout": {"processes": "ranks"}}, ": ranks"),
        ({"sizes": {"kib": 1024}}, ": kib"),
    ],
)
def test_an_incomplete_declaration_is_refused(declaration: dict[str, Any], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        benchmark("fft", **declaration)


def test_an_unbounded_rate_has_a_reason() -> None:
    found = measured(benchmark("fft", bound=None, dtype=None, unbounded="not known"), "breit", "alle")
    assert share_of_ceiling(found, []).reason == "not known"
    assert found.peak is None


def test_the_layout_is_read_from_the_declared_axes() -> None:
    ranks = Benchmark("talk", spin, ("cpu",), {"koepfe": (2,), "art": ("a",)}, "time", layout={"processes": "koepfe"})
    layout = ranks.layout_of(Point("talk", "cpu", {"koepfe": 6, "art": "a"}))
    assert (layout.processes, layout.computing_devices, dict(layout.axes)) == (6, 6, {"koepfe": "processes"})
    assert axis("art")(Point("talk", "cpu", {"art": "b"})) == "b"


FILES = {
    "cpu_vendor": "def prepare(point):\n    return None\n",
    "cpu_exported": "from elsewhere import (\n    helper,\n    prepare,\n)\n",
    "cpu_renamed": "import elsewhere as prepare\n",
    "cpu_assigned": "import elsewhere\n\nprepare = elsewhere.make\n",
    "cpu_chosen": "try:\n    from fast import prepare\nexcept ImportError:\n    def prepare(point): ...\n",
    "cpu_broken": "import prepare from elsewhere\n",
    "cpu_task": "def make_task(point):\n    prepare = point\n    return prepare\n",
    "cpu_words": '"""A benchmark calls prepare(point)."""\n\nprint(prepare)\n',
    "cpu_method": "class Kernel:\n    def prepare(self): ...\n",
    "gpu_numba": "def prepare(point):\n    return None\n",
}


def test_a_file_is_an_implementation_if_it_binds_prepare_at_the_top_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_by_files").mkdir()
    for name, source in FILES.items():
        (tmp_path / "found_by_files" / f"{name}.py").write_text(f"\n{source}", encoding="utf-8")
    (tmp_path / "found_by_files" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    expected = ("vendor", "assigned", "broken", "chosen", "exported", "renamed")
    assert implementations("found_by_files.{device}_{impl}", "cpu") == expected
    assert implementations("found_by_files.{device}_{impl}", "gpu") == ("numba",)


def test_a_file_for_every_device_is_an_implementation_on_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "found_on_any").mkdir()
    for name in ("__init__", "cpu_own", "any_shared"):
        (tmp_path / "found_on_any" / f"{name}.py").write_text("\ndef prepare(point):\n    return __name__\n")
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    declare = declaration.benchmark(
        "on-any", devices=("cpu", "tpu"), module="found_on_any.{device}_{impl}", axes={}, metric="time"
    )
    try:
        declare(lambda: None)
        found = declaration.REGISTRY["on-any"]
    finally:
        declaration.REGISTRY.pop("on-any")
    assert [found.axes_on(device)["impl"] for device in found.devices] == [("own",), ("shared",)]
    assert [found.choices_on(device)["impl"] for device in found.devices] == [("own", "shared"), ("shared",)]
    assert found.implementation("cpu", {"impl": "own"}) == "found_on_any.cpu_own"
    assert {found.implementation(device, {"impl": "shared"}) for device in ("cpu", "tpu")} == {
        "found_on_any.any_shared"
    }


def test_small_points_are_the_allowed_combinations_of_implementation_and_small_values() -> None:
    axes = {"impl": {"cpu": ("a", "b")}, "zahlenart": tuple(WIDTHS), "groesse": (1 << 20, 1 << 24)}
    rules = {"impl": {"b": {"zahlenart": ("schmal",)}}}
    found = Benchmark("x", spin, ("cpu",), axes, "time", only=rules, small={"groesse": (3, 5)}).small_points("cpu", 7)
    assert [tuple(point.params.values()) for point in found] == [
        ("a", "breit", 3),
        ("a", "breit", 5),
        ("b", "schmal", 3),
        ("b", "schmal", 5),
    ]
    assert {(point.benchmark, point.device, point.seed) for point in found} == {("x", "cpu", 7)}
