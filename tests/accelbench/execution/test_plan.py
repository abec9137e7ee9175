"""Tests of the plan: valid combinations of axis values, suites, backends and ceilings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import (
    Choice,
    discover,
    make_plan,
    needed_ceilings,
    new_imports,
    replaced_backend,
    require_any_framework,
)
from accelbench.execution.runner import too_few
from accelbench.execution.suite import load_suite
from accelbench.profiling.analysis.roofline import ceilings
from accelbench.profiling.benchmark import Benchmark, Skip
from accelbench.profiling.machine.nvidia import cuda
from accelbench.profiling.ranks.world import World, join
from accelbench.profiling.records.point import Device, Point, Scalar
from accelbench.profiling.records.work import Work
from accelbench.workloads.distribution.find import STRATEGIES, strategy_of
from accelbench.workloads.training.declare import BACKENDS
from tests.conftest import Run, records
from tests.fixtures.report_records import record

KERNELS = [name for name, each in discover().items() if not each.backends and "gpu" in each.devices]


class DeviceRequested(Exception):
    """Access to the device: the implementation has not skipped the point before."""


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(module: str) -> None:
        raise DeviceRequested(module)

    monkeypatch.setattr(cuda, "import_module", request)
    monkeypatch.setattr("accelbench.profiling.devices.import_module", request)


def refuses(benchmark: Benchmark, point: Point) -> bool:
    """Return whether the implementation skips the point before it accesses a device."""
    from numba.cuda.cudadrv.error import CudaSupportError

    try:
        benchmark.prepare(point)
    except Skip:
        return True
    except (DeviceRequested, CudaSupportError):
        return False
    return False


def combinations(benchmark: Benchmark) -> Iterator[dict[str, Scalar]]:
    """Yield all combinations of text values, with the first value of numeric axes."""
    axes = {
        axis: values if isinstance(values[0], str) else values[:1] for axis, values in benchmark.axes_on("gpu").items()
    }
    return (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_skips_exactly_the_combinations_that_are_not_planned(name: str) -> None:
    for params in combinations(kernel := discover()[name]):
        declared = kernel.exclusion("gpu", None, params) is not None
        assert refuses(kernel, Point(name, "gpu", params)) == declared, params


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_workload_skips_the_strategies_that_are_not_planned(backend: str, strategy: str) -> None:
    training, values = discover()["transformer"], {"batch": 12, "strategy": strategy}
    planned, given = 0, {"precision": "float32", "visible": "all", "held": "nothing"}
    for devices, processes, jit in itertools.product((1, 2), (1, 3), ("auto", "on")):
        params = {**values, "devices": devices, "processes": processes, "jit_compile": jit, **given}
        for device in training.devices:
            join(World(rank=0, size=processes))
            try:
                if training.exclusion(device, backend, params):
                    with pytest.raises(Skip):
                        strategy_of(Point("transformer", device, params, backend))
                else:
                    planned += 1
            finally:
                join(World())
    assert bool(planned) == (backend in STRATEGIES[strategy].backends)


def test_only_training_workloads_with_a_sharding_have_fsdp() -> None:
    for name, there in (("transformer", True), ("cnn-mnist", False)):
        assert ("fsdp" in discover()[name].choices["strategy"]) == there
        assert ("fsdp" in str(discover()[name].rules())) == there


def plan(*choices: str, suite: str | None = None, names: tuple[str, ...] = (), device: Device = "gpu") -> list[Point]:
    chosen = load_suite(suite) if suite else None
    planned = make_plan(names, chosen, device, [Choice.parse(text) for text in choices], None)
    return list(planned)


@pytest.mark.parametrize("suite", ["quick", "kernels", "ceilings", "full"])
def test_a_suite_omits_invalid_combinations(suite: str) -> None:
    types = {(point["impl"], point["dtype"]) for point in plan(suite=suite) if point.benchmark == "matmul"}
    assert ("vendor", "fp8") in types
    assert types <= {("vendor", dtype) for _, dtype in types} | {
        *(("numba", dtype) for dtype in ("float64", "float32")),
        *((impl, dtype) for impl in ("mma", "wgmma", "triton") for dtype in ("float16", "bfloat16")),
        *(("triton", dtype) for dtype in ("float32", "tf32")),
    }


def test_block_scaled_types_are_measured_on_request_by_the_library_only() -> None:
    assert not {point["dtype"] for point in plan(names=("matmul",))} & {"mxfp8", "nvfp4"}
    assert {(point["impl"], point["dtype"]) for point in plan("dtype=mxfp8,nvfp4", names=("matmul",))} == {
        ("vendor", "mxfp8"),
        ("vendor", "nvfp4"),
    }
    for device in ("cpu", "tpu"):
        with pytest.raises(UserError, match="nvfp4"):
            plan("dtype=nvfp4", names=("matmul",), device=device)


def test_the_matrix_ceiling_of_a_gpu_is_the_best_of_several_sizes_per_dtype() -> None:
    points = needed_ceilings(make_plan(("gemm",), None, "gpu", (), None))
    scans: dict[Scalar, set[Scalar]] = {}
    for point in points:
        if point.benchmark == "matmul":
            assert point["impl"] == "vendor"
            scans.setdefault(point["dtype"], set()).add(point["n"])
    assert set(scans) == set(discover()["gemm"].axes_on("gpu")["dtype"])
    assert all(len(sizes) >= 3 for sizes in scans.values())
    fields = {"figure": "flops", "ceiling": True}
    scanned = [point.params for point in points if point.benchmark == "matmul"]
    found = [record("matmul", "gpu", params=p, work=Work(flops=1e9 * int(p["n"])), **fields) for p in scanned]
    measured = ceilings(found)
    assert {ceiling.record.point["n"] for ceiling in measured} == {max(sizes) for sizes in scans.values()}


def test_valid_combinations_of_requested_values_are_planned() -> None:
    points = plan("impl=numba,mma", "dtype=float32,bfloat16", "n=4096", names=("matmul",))
    assert [(point["impl"], point["dtype"]) for point in points] == [("numba", "float32"), ("mma", "bfloat16")]


def test_without_a_valid_combination_the_error_has_the_rules() -> None:
    with pytest.raises(UserError) as raised:
        plan("matmul.impl=mma,wgmma", "matmul.dtype=float64", names=("matmul", "stream"))
    for impl in ("mma", "wgmma"):
        assert f"impl={impl} only with dtype=float16,bfloat16" in str(raised.value)


def test_a_strategy_of_another_backend_is_an_error_with_the_rule() -> None:
    with pytest.raises(UserError, match=r"strategy=ddp .* backend=torch devices=1"):
        plan("strategy=ddp", names=("cnn-mnist",), device="cpu")


def test_an_optional_axis_is_in_the_point_only_if_requested() -> None:
    assert "strategy" not in plan(names=("cnn-mnist",), device="cpu")[0].params
    assert plan("devices=2", names=("cnn-mnist",), device="cpu")[0].params["devices"] == 2


def test_the_default_width_is_not_in_the_name_of_the_point() -> None:
    (published,) = plan("width=100", names=("cnn-mnist",), device="cpu")
    assert str(published) == str(plan(names=("cnn-mnist",), device="cpu")[0])
    assert "width=50" in str(plan("width=50", names=("cnn-mnist",), device="cpu")[0])


@pytest.mark.parametrize(
    ("installed", "device", "backend"),
    [
        (BACKENDS, "cpu", "tensorflow"),
        (BACKENDS, "gpu", "tensorflow"),
        (BACKENDS, "tpu", "jax"),
        (("tensorflow",), "tpu", "tensorflow"),
        ((), "tpu", "jax"),
    ],
)
def test_a_tpu_trains_on_jax_by_default(
    monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], device: Device, backend: str
) -> None:
    monkeypatch.setattr("accelbench.execution.plan.is_installed", lambda name: name in installed)
    (point,) = plan(names=("cnn-mnist",), device=device)
    assert point.backend == backend
    note = replaced_backend([point], None)
    assert bool(note) == (installed == ("tensorflow",))
    assert note is None or note.startswith("JAX is not installed")


@pytest.mark.parametrize("choice", ["visible=used", "held=gpu-memory"])
def test_gpu_axes_of_a_training_workload_are_planned_only_on_gpus(choice: str) -> None:
    (point,) = plan(choice, names=("cnn-mnist",))
    assert choice in str(point)
    with pytest.raises(UserError, match=rf"{choice} .* device=gpu"):
        plan(choice, names=("cnn-mnist",), device="cpu")


def test_a_suite_plans_each_number_of_host_cores(tmp_path: Path) -> None:
    def planned(text: str) -> list[Point]:
        (file := tmp_path / "mine.toml").write_text(f'description = "d"\n{text}\n')
        return make_plan((), load_suite(str(file)), "cpu", (), None)

    training = '[[benchmark]]\nname = "cnn-mnist"\n'
    points = planned(f"{training}axes = {{ epochs = [1, 2] }}\nhost_cores = [1, 20]\n{training}")
    assert [(point["epochs"], point.host_cores) for point in points] == [(1, 1), (1, 20), (2, 1), (2, 20), (12, None)]
    with pytest.raises(UserError, match=r"host_cores .*nqueens"):
        planned('[[benchmark]]\nname = "nqueens"\nhost_cores = [1]')
    with pytest.raises(UserError, match="host_cores"):
        planned(f"{training}host_cores = [0]")


def test_missing_host_cores_are_a_skip() -> None:
    here, lacking = (Point("cnn-mnist", "cpu", {}, "tensorflow", host_cores=cores) for cores in (1, 100_000))
    assert too_few(here, None) is None
    missing = too_few(lacking, None)
    assert missing
    assert missing.status == "skipped"
    assert "100000 host cores" in missing.reason


def test_host_cores_require_a_single_process() -> None:
    point = Point("cnn-mnist", "cpu", {"processes": 2}, "tensorflow", host_cores=1)
    ranks = SimpleNamespace(size=2)
    missing = too_few(point, ranks)  # type: ignore[arg-type]
    assert missing
    assert missing.status == "skipped"
    assert re.findall(r"\d", missing.reason) == ["1", "2"], "host cores and processes"


def test_planned_strategies_of_a_tpu_use_the_tpu() -> None:
    points = plan(suite="kimm2021-strategies", device="tpu")
    assert [strategy_of(point).name for point in points] == ["tpu"] * 2


@pytest.fixture
def only_installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(*backends: str) -> None:
        monkeypatch.setattr("accelbench.execution.plan.is_installed", lambda name: name in backends)

    return install


@pytest.mark.parametrize(
    ("installed", "backend", "names"),
    [
        (("tensorflow", "jax", "torch"), "tensorflow", None),
        (("jax", "torch"), "jax", ("TensorFlow", "JAX")),
        (("torch",), "torch", ("TensorFlow", "PyTorch")),
        ((), "tensorflow", None),
    ],
)
def test_training_workloads_use_the_first_installed_backend(
    only_installed: Callable[..., None], installed: tuple[str, ...], backend: str, names: tuple[str, str] | None
) -> None:
    only_installed(*installed)
    planned = make_plan(("cnn-mnist", "matmul"), None, "cpu", (), None)
    assert {point.backend for point in planned if point.benchmark == "cnn-mnist"} == {backend}
    note = replaced_backend(planned, None)
    assert (note is None) == (names is None)
    assert all(name in str(note) for name in names or ())


def test_a_requested_backend_is_planned_even_if_not_installed(
    only_installed: Callable[..., None],
) -> None:
    only_installed("jax")
    planned = make_plan(("cnn-mnist",), None, "cpu", (), "torch")
    assert [point.backend for point in planned] == ["torch"]
    assert replaced_backend(planned, "torch") is None


def test_all_backends_of_a_suite_are_planned(only_installed: Callable[..., None]) -> None:
    only_installed("jax")
    planned = make_plan((), load_suite("wang2019"), "cpu", (), None)
    assert [point.backend for point in planned] == ["tensorflow", "jax", "torch"]
    assert replaced_backend(planned, None) is None


@pytest.mark.parametrize(
    ("backends", "extras"),
    [(("torch",), ["torch"]), (("jax",), ["jax"]), (("tensorflow",), ["cpu"]), (("jax", "torch"), ["jax", "torch"])],
)
def test_missing_frameworks_are_an_error_with_the_install_commands(
    only_installed: Callable[..., None], backends: tuple[str, ...], extras: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelbench.profiling.machine.packages.TENSORFLOW_BELOW", (9, 0))
    only_installed()
    planned = [point for backend in backends for point in make_plan(("cnn-mnist",), None, "cpu", (), backend)]
    with pytest.raises(UserError) as raised:
        require_any_framework(planned)
    assert re.findall(r"is not installed: pip install 'accelbench\[(\w+)\]'", str(raised.value)) == extras
    require_any_framework([*planned, *make_plan(("norm",), None, "cpu", (), None)])


ON_AN_ABSENT_BACKEND = '''
"""A benchmark with a first backend that does not exist."""

from accelbench import Task, Verification, Work, benchmark


@benchmark("trained", devices=("cpu",), axes={"batch": (1,)}, metric="time", backends=("absent", "json"))
def trained(point):
    """Return an empty task."""
    return Task(lambda: None, lambda: Verification(passed=True, method="none"), Work())
'''


@pytest.mark.slow
def test_a_replaced_backend_is_printed_once_and_recorded(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "absent_backend.py").write_text(ON_AN_ABSENT_BACKEND)
    process = accelbench(
        *("run", "trained", "--no-ceilings", "--device", "cpu", "--max-seconds", "0.1", "--out", "run"),
        ACCELBENCH_PATH=str(tmp_path / "own"),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.count("absent is not installed") == 1
    assert [record["point"]["backend"] for record in records(tmp_path / "run")] == ["json"]


def test_max_seconds_of_a_suite_by_device(tmp_path: Path) -> None:
    def seconds(text: str, device: Device) -> float | None:
        (file := tmp_path / "mine.toml").write_text(f'description = "d"\n{text}\n')
        return load_suite(str(file)).max_seconds.get(device)

    assert seconds("max_seconds = { cpu = 3, gpu = 1.5 }", "gpu") == 1.5
    assert seconds("max_seconds = { cpu = 3, gpu = 1.5 }", "tpu") is None
    assert seconds("max_seconds = 2", "gpu") == 2
    assert seconds("", "gpu") is None


def test_rounds_of_a_suite_by_device(tmp_path: Path) -> None:
    (file := tmp_path / "mine.toml").write_text('description = "d"\nrounds = { cpu = 5 }\ntraining_rounds = 2\n')
    suite = load_suite(str(file))
    assert (suite.rounds.get("cpu"), suite.rounds.get("gpu"), suite.training_rounds.get("gpu")) == (5, None, 2)


@pytest.mark.parametrize("name", ["quick", "kernels", "ceilings"])
def test_suites_repeat_kernels_but_not_training_workloads(name: str) -> None:
    suite = load_suite(name)
    assert suite.rounds["cpu"] >= 3
    assert suite.training_rounds == {}


STREAMS = {("stream", "float64", "all")}


@pytest.mark.parametrize(
    ("name", "choices", "kinds"),
    [
        ("norm", (), STREAMS),
        ("stream", ("op=dot",), STREAMS),
        ("matmul", (), {("peak-arith", "float32", "all"), ("peak-arith", "float64", "all")}),
        ("matmul", ("dtype=int8",), {("peak-arith", "int8", "all")}),
        ("peak-arith", ("cores=one",), set()),
        ("cnn-mnist", (), {("peak-arith", "float32", "all"), *STREAMS}),
        ("nqueens", (), set()),
    ],
)
def test_only_ceilings_of_possible_bounds_are_added(
    name: str, choices: tuple[str, ...], kinds: set[tuple[str, str, str]]
) -> None:
    points = needed_ceilings(make_plan((name,), None, "cpu", [Choice.parse(text) for text in choices], None))
    assert {(point.benchmark, point["dtype"], point.params.get("cores", "all")) for point in points} == kinds


def test_a_memory_bound_gpu_kernel_needs_only_the_memory_ceiling() -> None:
    points = needed_ceilings(make_plan(("norm",), None, "gpu", (), None))
    assert {point.benchmark for point in points} == {"stream"}


def test_narrow_dtypes_on_a_cpu_are_planned_on_request() -> None:
    points = make_plan(("matmul",), None, "cpu", (Choice.parse("dtype=int8,bfloat16"),), None)
    assert {point["impl"] for point in points} == {"vendor", "dots"}
    with pytest.raises(UserError):
        make_plan(("matmul",), None, "cpu", (Choice.parse("dtype=tf32"),), None)


OLD_IMPORTS = """
import profiling.records.point as points
from profiling.benchmark import Task, axis, benchmark as declare
from profiling.records.point import Point
from accelbench.run.plan import discover

def later():
    from kernels.threads import compiled
    from workloads.training.declare import training
"""


def test_old_imports_are_replaced_by_public_names_if_possible() -> None:
    assert new_imports(OLD_IMPORTS) == [
        "from accelbench import Point, Task, benchmark as declare, training",
        "from accelbench.profiling.benchmark import axis",
        "from accelbench.execution.plan import discover",
        "from accelbench.kernels.lib.cpu.threads import compiled",
        "import accelbench.profiling.records.point as points",
    ]
    assert new_imports("import numpy\nfrom accelbench import run\nfrom accelbench.running import x\n") == []
    assert new_imports("import kernels.no_such_module\nfrom kernels.no_such_module import x\n") == []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("from profiling.benchmark import benchmark", "from accelbench import benchmark"),
        ("from kernels.threads import compiled", "from accelbench.kernels.lib.cpu.threads import compiled"),
        ("from workloads.training.declare import training", "from accelbench import training"),
        ("from accelbench.run.plan import discover", "from accelbench.execution.plan import discover"),
    ],
)
def test_old_imports_in_a_users_file_are_one_line_with_the_current_import(
    before: str, now: str, accelbench: Run, tmp_path: Path
) -> None:
    (tmp_path / "old.py").write_text(f"{before}\n")
    process = accelbench("list", ACCELBENCH_PATH=str(tmp_path))
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert process.stderr.rstrip("\n").endswith(now)


def test_a_missing_package_in_a_users_file_gets_no_import_advice(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text("import a_package_that_is_not_there\n")
    process = accelbench("list", ACCELBENCH_PATH=str(tmp_path))
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1
    assert "0.2.0" not in process.stderr
