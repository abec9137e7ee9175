"""Kernels in JAX: correct in every type, repeated within one program, skipped without JAX on the device."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accelbench.errors import UserError
from accelbench.execution.plan import Choice, discover, layout_of, make_plan
from accelbench.kernels.lib.xla import placed, require_repeated
from accelbench.kernels.transfer import MEMORY
from accelbench.kernels.treesearch.nqueens.published import NODES, SOLUTIONS
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.timing.host import MIN_SAMPLE_SECONDS, choose_loops
from tests.conftest import ROOT, Run, environment, records
from tests.fixtures.warm import FAST_COMPILATION, QUIET

NAMES = (
    *("attention", "collectives", "gemm", "matmul", "norm", "nqueens", "optimizer-step", "peak-arith", "reduce"),
    *("softmax-xent", "stream"),
)
HLO = """
%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %mul = f32[8]{0} multiply(%p, %p)
}

%mask () -> pred[8] {
  %iota = s32[8]{0} iota(), iota_dimension=0, metadata={op_name="jit(program)/while/body/kernel/iota"}
  ROOT %ge = pred[8]{0} compare(%iota, %iota), direction=GE, metadata={op_name="jit(program)/while/body/kernel/ge"}
}

%body (state: (f32[8])) -> (f32[8]) {
  %state = (f32[8]{0}) parameter(0)
  %x = f32[8]{0} get-tuple-element(%state), index=0
  %y = f32[8]{0} OPERATION
  ROOT %tuple = (f32[8]{0}) tuple(%y)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  %m = pred[8]{0} fusion(), kind=kLoop, calls=%mask, metadata={op_name="jit(program)/while/body/kernel/ge"}
  %e = f32[8]{0} BEFORE
  %t = (f32[8]{0}) tuple(%e)
  %w = (f32[8]{0}) while(%t), condition=%cond, body=%body, metadata={op_name="jit(program)/while"}
  ROOT %r = f32[8]{0} get-tuple-element(%w), index=0
}
"""
FUSED = 'fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="jit(program)/while/body/kernel/mul"}'
HOISTED = 'exponential(%x.1), metadata={op_name="jit(program)/while/body/kernel/exp"}'
ONE_CORE = """
import os
from pathlib import Path
from accelbench.kernels.lib.xla import Xla
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
before = os.sched_getaffinity(0)
started = {*os.listdir("/proc/self/task")}
xla = Xla.on(Point("peak-arith", "cpu", {}), "one")
xla.put(__import__("numpy").ones(1 << 20)).sum().block_until_ready()
threads = {*os.listdir("/proc/self/task")} - started
cpus = {frozenset(os.sched_getaffinity(int(thread))) for thread in threads}
try:
    Xla.on(Point("peak-arith", "cpu", {}), "all")
except Skip:
    skipped = True
else:
    skipped = False
print(len(cpus), len(min(cpus)), os.sched_getaffinity(0) == before, skipped)
"""


def python(*arguments: str) -> str:
    """Return the output of a Python process that may import JAX."""
    settings = environment(**QUIET, **FAST_COMPILATION)
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=settings, check=True, stdout=-1, text=True).stdout


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Return the results of `jax_points`, from one process."""
    found: dict[str, Any] = json.loads(python("-m", "tests.kernels.jax_points").splitlines()[-1])
    return found


@pytest.mark.slow
def test_every_benchmark_and_type_is_verified(results: dict[str, Any]) -> None:
    points = results["points"]
    assert [name for name, found in points.items() if not found["passed"]] == []
    assert {name.partition(" ")[0] for name in points} == {*NAMES}
    for found in points.values():
        assert found["timer"] == "host"
        assert {"compilation", "call of the program"} <= {*found["metrics"]}
        assert found["overhead"] > 0


@pytest.mark.slow
def test_a_wrong_kernel_fails_its_check(results: dict[str, Any]) -> None:
    assert results["wrong"] == {"norm": True, "optimizer-step": True, "peak-arith": True}


@pytest.mark.slow
def test_the_loop_of_a_program_does_every_execution(results: dict[str, Any]) -> None:
    assert max(results["steps"].values()) < 1e-6  # the means after 1, 2 and 7 steps of AdamW
    assert "removed the kernel" in results["removed"]


@pytest.mark.slow
def test_xla_keeps_every_step_of_the_chains(results: dict[str, Any]) -> None:
    assert results["multiplications"] == {"4": 16, "8": 32, "16": 64}  # 4 chains


@pytest.mark.slow
def test_a_search_counts_every_node_with_any_number_of_lanes(results: dict[str, Any]) -> None:
    assert len(results["searched"]) == 5
    for queens, *_, nodes, solutions in results["searched"]:
        assert (nodes, solutions) == (NODES[queens], SOLUTIONS[queens]), queens


@pytest.mark.slow
def test_only_a_function_that_compiles_again_is_flagged(results: dict[str, Any]) -> None:
    assert results["compilations"]["same"] == []
    (flag,) = results["compilations"]["others"]
    assert "compiled 2 programs" in flag


@pytest.mark.slow
def test_a_device_that_jax_does_not_see_is_skipped(results: dict[str, Any]) -> None:
    skipped = results["skipped"]
    assert "no GPU: found cpu (JAX_PLATFORMS=cpu)" in skipped["gpu"]
    assert "no TPU: found cpu (JAX_PLATFORMS=cpu)" in skipped["tpu"]
    assert "jax[tpu]" in skipped["tpu"]
    assert skipped["int8"]


@pytest.mark.slow
def test_fewer_devices_than_requested_are_skipped_with_their_number(results: dict[str, Any]) -> None:
    assert re.search(r"\b9 devices.*\b8 CPU devices.*host_platform_device_count=8", results["skipped"]["devices"])


@pytest.mark.slow
def test_what_a_generation_of_devices_lacks_is_skipped(results: dict[str, Any]) -> None:
    assert re.search("for cpu: .*F64 on this TPU$", results["skipped"]["lacking"])
    assert "no-such" in results["unregistered"]  # another error of the compiler is none of these


@pytest.mark.slow
def test_copies_are_verified_in_both_memories_and_all_directions(results: dict[str, Any]) -> None:
    sizes = [ways * kib * 1024 for _ in MEMORY for ways in (1, 1, 2) for kib in (4, 300)]
    assert results["transfers"] == [[True, size, "host"] for size in sizes]


@pytest.mark.slow
def test_planned_points_of_a_tpu_are_verified_on_eight_devices_of_a_cpu(results: dict[str, Any]) -> None:
    assert len(results["on a TPU"]) == 5 + 6  # operations, and directions of the copies in both memories
    assert all(results["on a TPU"].values()), results["on a TPU"]


@pytest.mark.slow
def test_wrong_copies_and_collectives_fail_their_check(results: dict[str, Any]) -> None:
    assert len(results["wrong copies"]) == 4
    assert all(results["wrong copies"].values()), results["wrong copies"]
    assert len(results["wrong collectives"]) == 3
    assert all(results["wrong collectives"].values()), results["wrong collectives"]


@pytest.mark.parametrize("device", ["cpu", "gpu", "tpu"])
def test_collectives_by_jax_are_between_eight_devices_of_one_process(device: Device) -> None:
    points = make_plan(("collectives",), None, device, (Choice.parse("impl=jax"),), None)
    assert "broadcast" not in {point["op"] for point in points}
    layouts = {(layout.processes, layout.devices) for layout in map(layout_of, points)}
    assert layouts == {(1, 8)}


@pytest.mark.parametrize(
    "choices",
    [("impl=jax", "devices=1"), ("impl=jax", "processes=2"), ("impl=jax", "op=broadcast"), ("impl=gloo", "devices=4")],
)
def test_collectives_have_either_processes_or_devices(choices: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="no such combination"):
        make_plan(("collectives",), None, "cpu", [Choice.parse(text) for text in choices], None)


def test_collectives_between_processes_are_planned_without_devices() -> None:
    points = make_plan(("collectives",), None, "cpu", (), None)
    assert {point["processes"] for point in points} == {2}
    assert all("devices" not in point.params for point in points)


def test_copies_are_by_jax_where_there_are_no_others() -> None:
    for device, impl in (("cpu", None), ("gpu", None), ("tpu", None), ("gpu", "jax")):
        choices = (Choice.parse(f"impl={impl}"),) if impl else ()
        (point, *_) = make_plan(("transfer",), None, device, choices, None)
        assert point.params.get("impl") == impl
        module = str(discover()["transfer"].implementation(device, point.params))
        assert module.endswith("gpu_cupy" if (device, impl) == ("gpu", None) else "any_jax")


@pytest.mark.slow
def test_one_core_means_threads_on_one_cpu() -> None:
    assert python("-c", ONE_CORE).split() == ["1", "1", "True", "True"]


@pytest.mark.slow
def test_a_measured_point_has_its_compilation_apart(accelbench: Run, tmp_path: Path) -> None:
    params = ("--param", "impl=jax", "--param", "dtype=float32", "--param", "n=64")
    out = tmp_path / "run"
    process = accelbench("run", "matmul", "--device", "cpu", *params, "--no-ceilings", "--out", out, **QUIET)
    assert process.returncode == 0, process.stderr
    (record,) = records(out)
    compilation = record["metrics"]["compilation"]["value"]
    assert 0 < compilation <= record["phases"]["first_call_s"]
    call_s = record["metrics"]["call of the program"]["value"] / 1e6
    assert record["timing"]["loops"] > 1  # a call is at most 1 % of a sample
    assert record["timing"]["loops"] * record["timing"]["summary"]["maximum"] > 50 * call_s


def test_only_requested_points_are_by_jax_where_others_exist() -> None:
    for name in NAMES:
        assert all(point.params.get("impl") != "jax" for point in make_plan((name,), None, "cpu", (), None))
        for device in ("cpu", "gpu", "tpu"):
            points = make_plan((name,), None, device, (Choice.parse("impl=jax"),), None)
            assert points
            for point in points:
                module = discover()[name].implementation(device, point.params)
                assert module is not None
                assert module.endswith(".any_jax")


@pytest.mark.slow
def test_listing_and_planning_import_no_jax(accelbench: Run, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise SystemExit('jax is imported')")
    process = accelbench("run", "--suite", "jax", "--device", "cpu", "--dry-run", PYTHONPATH=str(tmp_path))
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("impl=jax") >= len(NAMES) - 1
    for command in (("list",), ("list", "matmul"), ("list", "--json")):
        assert accelbench(*command, PYTHONPATH=str(tmp_path)).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_points_are_skipped_without_jax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    (point, *_) = make_plan((name,), None, "tpu", (Choice.parse("impl=jax"),), None)
    with pytest.raises(Skip, match=r"JAX is not installed: pip install 'jax\[tpu\]'"):
        discover()[name].prepare(Point(name, "tpu", point.params))


@pytest.mark.parametrize(
    ("operation", "before", "kept"),
    [
        (FUSED, "copy(%x.1)", True),
        ("copy(%x)", "copy(%x.1)", True),
        (FUSED, HOISTED, False),
        ("negate(%x)", "x", False),
    ],
)
def test_operations_of_the_kernel_outside_the_loop_are_found(operation: str, before: str, kept: bool) -> None:
    hlo = HLO.replace("OPERATION", operation).replace("BEFORE", before)
    if kept:
        require_repeated(hlo)
        assert placed(hlo)[1] == []
    else:
        with pytest.raises(RuntimeError):
            require_repeated(hlo)


def test_a_sample_is_long_compared_with_its_known_overhead() -> None:
    assert choose_loops(lambda loops: 1e-4) == 16
    assert choose_loops(lambda loops: 1e-4, None, 100 * MIN_SAMPLE_SECONDS) == 1024
