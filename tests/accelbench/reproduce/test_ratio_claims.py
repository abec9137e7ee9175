"""Claims about one device's time over another's, decided both ways by made-up runs, and every reason why not."""

from __future__ import annotations

import pytest

from accelbench.reproduce.verdict import Finding
from profiling.records.record import Record
from profiling.records.work import Bound, Work
from tests.fixtures.made_up_runs import card, judged, machine, run_of, searched, trained
from tests.fixtures.report_records import record, stepped, timing, unmeasured

IMAGES = ("cnn-mnist", "dbn-mnist")
TEXT = ("bilstm-imdb", "bigru-imdb")


def lstm(device: str, seconds: float, units: int = 128, batch: int = 64, **changes: object) -> Record:
    return trained("bilstm-har", device, seconds, units=units, layers=2, batch=batch, **changes)


def all_four(device: str, images: float, text: float) -> list[Record]:
    return [trained(name, device, images) for name in IMAGES] + [trained(name, device, text) for name in TEXT]


def told(finding: Finding) -> tuple[str, str | None]:
    return finding.word, finding.reason


@pytest.mark.parametrize(("seconds", "word"), [(0.1, "confirmed"), (10.0, "refuted")])
def test_c2_a_gpu_that_searches_faster_than_all_cores_confirms_it(seconds: float, word: str) -> None:
    found = judged("C2", run_of(searched("cpu", 1.0)), run_of(searched("gpu", seconds)))
    assert found.word == word
    assert found.ours.startswith("× ")


def test_a_device_that_no_run_has_is_the_reason_before_anything_that_disturbed_the_other() -> None:
    noisy = run_of(lstm("cpu", 1.0, noise=["other work took 90 % of a CPU"]))
    assert told(judged("K2", noisy)) == ("cannot tell", "no such device")
    assert told(judged("K2", noisy, run_of(lstm("gpu", 0.04)))) == ("cannot tell", "disturbed")


def test_c2_one_core_is_not_all_cores() -> None:
    found = judged("C2", run_of(searched("cpu", 1.0, cores="one")), run_of(searched("gpu", 0.1)))
    assert told(found) == ("cannot tell", "no such point")


@pytest.mark.parametrize(("image", "word"), [(1.0, "confirmed"), (30.0, "refuted")])
@pytest.mark.parametrize("device", ["gpu", "tpu"])
def test_s1_every_training_has_to_be_faster(device: str, image: float, word: str) -> None:
    found = judged("S1", run_of(*all_four("cpu", 10, 10)), run_of(*all_four(device, image, image)))
    assert found.word == word
    assert len([line for line in found.evidence if "cpu ÷" in line]) == 4


def test_s1_points_that_disagree_decide_nothing() -> None:
    found = judged("S1", run_of(*all_four("cpu", 10, 10)), run_of(*all_four("gpu", 1, 30)))
    assert told(found) == ("cannot tell", "the points disagree")
    assert "in 2 of 4 cases, and not in 2" in found.why


@pytest.mark.parametrize(("images", "text", "word"), [(0.1, 5, "confirmed"), (5, 0.1, "refuted")])
def test_s2_text_gains_less_than_images(images: float, text: float, word: str) -> None:
    found = judged("S2", run_of(*all_four("cpu", 10, 10)), run_of(*all_four("gpu", images, text)))
    assert found.word == word


def test_s2_gains_that_overlap_decide_nothing() -> None:
    found = judged("S2", run_of(*all_four("cpu", 10, 10)), run_of(*all_four("gpu", 1, 1.02)))
    assert told(found) == ("cannot tell", "interval too wide")
    assert "overlap" in found.why


def ceiling(device: str, rate: float) -> Record:
    return record(
        "peak-arith", device, figure="flops", work=Work(flops=rate * 1e-3), ceiling=True,
        bound=Bound("arithmetic", None, "float32"), params={"dtype": "float32"},
    )  # fmt: skip


@pytest.mark.parametrize(("gpu", "why"), [(1e15, "no larger"), (2e12, "exceed")])
def test_s3_agreement_with_the_ceilings_is_never_a_proof(gpu: float, why: str) -> None:
    cpu = run_of(*all_four("cpu", 10, 10), ceiling("cpu", 1e12))
    found = judged("S3", cpu, run_of(*all_four("gpu", 1, 1), ceiling("gpu", gpu)))
    assert told(found) == ("cannot tell", "proves nothing")
    assert why in found.why


@pytest.mark.parametrize(("seconds", "word"), [(0.04, "confirmed"), (4.0, "refuted")])
@pytest.mark.parametrize("device", ["gpu", "tpu"])
def test_k2_the_cpu_is_slower_at_128_units(device: str, seconds: float, word: str) -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0)), run_of(lstm(device, seconds)))
    assert found.word == word
    missing = {"gpu", "tpu"} - {device}
    assert f"these runs have no {missing.pop()}" in found.why


def test_k2_the_ratio_stands_beside_that_of_the_ceilings() -> None:
    found = judged(
        "K2", run_of(lstm("cpu", 1.0), ceiling("cpu", 1e12)), run_of(lstm("gpu", 0.04), ceiling("gpu", 1e14))
    )
    assert found.evidence[-1].endswith("cpu ÷ gpu: 0.250 times the ratio of the ceilings of float32 arithmetic, × 100")


def test_k2_compares_steps_whatever_the_epochs_were() -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0, epochs=1)), run_of(lstm("gpu", 0.04, epochs=30, repeats=5)))
    assert found.word == "confirmed"


@pytest.mark.parametrize(("at_256", "word"), [(4.0, "confirmed"), (0.5, "refuted")])
def test_k3_the_ratio_grows_with_the_units(at_256: float, word: str) -> None:
    cpu = run_of(lstm("cpu", 1.0), lstm("cpu", at_256, units=256))
    found = judged("K3", cpu, run_of(lstm("gpu", 0.04), lstm("gpu", 0.04, units=256)))
    assert found.word == word
    assert "of that at 128" in found.ours


def test_k3_without_256_units_is_no_such_point() -> None:
    found = judged("K3", run_of(lstm("cpu", 1.0)), run_of(lstm("gpu", 0.04)))
    assert told(found) == ("cannot tell", "no such point")


@pytest.mark.parametrize("axis", ["batch", "units"])
@pytest.mark.parametrize(
    ("small", "large", "word"), [(0.5, 2, "confirmed"), (0.5, 0.7, "refuted"), (2, 0.5, "refuted")]
)
def test_k4_and_k5_the_tpu_overtakes_the_gpu_along_the_axis(axis: str, small: float, large: float, word: str) -> None:
    gpu = run_of(*(lstm("gpu", 1.0, **{axis: value}) for value in (32, 1024)))
    tpu = run_of(lstm("tpu", 1 / small, **{axis: 32}), lstm("tpu", 1 / large, **{axis: 1024}))
    assert judged("K4" if axis == "batch" else "K5", gpu, tpu).word == word


def test_k4_without_a_tpu_says_so() -> None:
    found = judged("K4", run_of(lstm("gpu", 1.0), lstm("gpu", 1.0, batch=1024)))
    assert told(found) == ("cannot tell", "no such device")
    assert "these runs have no tpu" in found.why


@pytest.mark.parametrize(("seconds", "word"), [(0.01, "confirmed"), (1.0, "refuted")])
def test_l5_the_gpu_outperforms_the_cpu(seconds: float, word: str) -> None:
    whole = {"image": 64, "batch": 50, "visible": "all", "held": "nothing"}
    cpu = trained("deep-mnist-embryo", "cpu", 0.2, epochs=4, **whole)
    gpu = trained("deep-mnist-embryo", "gpu", seconds, epochs=25, **whole)
    assert judged("L5", run_of(cpu), run_of(gpu)).word == word


def test_no_run_at_all_decides_nothing() -> None:
    assert told(judged("K2")) == ("cannot tell", "no such device")


def test_a_ratio_near_one_is_too_wide_to_tell() -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0)), run_of(lstm("gpu", 0.98)))
    assert told(found) == ("cannot tell", "interval too wide")
    assert "more rounds or runs narrow it" in found.why


def test_disturbed_points_decide_nothing_unless_asked_to() -> None:
    runs = run_of(lstm("cpu", 1.0, noise=["steal time of 12 %"])), run_of(lstm("gpu", 0.04))
    found = judged("K2", *runs)
    assert told(found) == ("cannot tell", "disturbed")
    assert "steal time of 12 %" in found.why
    assert judged("K2", *runs, even_if_disturbed=True).word == "confirmed"


def test_a_disturbed_point_among_others_is_left_out() -> None:
    cpu = run_of(lstm("cpu", 1.0), lstm("cpu", 0.001, batch=128, noise=["steal time"]))
    found = judged("K2", cpu, run_of(lstm("gpu", 0.04), lstm("gpu", 0.04, batch=128)))
    assert found.word == "confirmed"
    assert len(found.evidence) == 1


def test_other_seeds_decide_nothing() -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0, seed=1)), run_of(lstm("gpu", 0.04, seed=2)))
    assert told(found) == ("cannot tell", "other seeds")
    assert "other seeds: 1, 2" in found.why


def test_other_precisions_decide_nothing() -> None:
    cpu, gpu = lstm("cpu", 1.0, precision="float32"), lstm("gpu", 0.04, precision="mixed_bfloat16")
    found = judged("K2", run_of(cpu), run_of(gpu))
    assert told(found) == ("cannot tell", "other parameters")
    assert "precision float32 / mixed_bfloat16" in found.why


def test_too_few_steps_decide_nothing() -> None:
    brief = lstm("cpu", 1.0, timing=stepped(timing(1.0, count=1, timer="steps", stop="epochs done")))
    assert told(judged("K2", run_of(brief), run_of(lstm("gpu", 0.04)))) == ("cannot tell", "too few samples")


def test_a_point_that_failed_is_told_with_its_reason() -> None:
    params = {"units": 128, "layers": 2, "batch": 64}
    broken = unmeasured("bilstm-har", "failed", "out of memory", params=params, backend="tensorflow")
    found = judged("K2", run_of(broken), run_of(lstm("gpu", 0.04)))
    assert told(found) == ("cannot tell", "not measured")
    assert "out of memory" in found.why


def test_points_on_few_host_cores_do_not_stand_for_the_device() -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0, host_cores=1)), run_of(lstm("gpu", 0.04, host_cores=1)))
    assert told(found) == ("cannot tell", "no such point")


def test_several_machines_each_decide_and_have_to_agree() -> None:
    gpu = run_of(lstm("gpu", 1.0), where=machine(gpus=[card()]))
    slow, fast = run_of(lstm("cpu", 10.0), where=machine(2)), run_of(lstm("cpu", 0.1), where=machine(64))
    assert judged("K2", slow, gpu).word == "confirmed"
    assert told(judged("K2", slow, fast, gpu)) == ("cannot tell", "the points disagree")


def test_several_runs_of_one_machine_are_one_side() -> None:
    cpus = [run_of(lstm("cpu", seconds)) for seconds in (1.0, 1.1, 0.9)]
    found = judged("K2", *cpus, run_of(lstm("gpu", 0.04)))
    assert found.word == "confirmed"
    assert len(found.evidence) == 1
