"""Verdicts on every claim from synthetic runs: confirmed, refuted, and every reason for inconclusive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.environment import Environment, Memory, System
from accelbench.profiling.records.quality import Data, Metric
from accelbench.profiling.records.record import Profile, Record
from accelbench.profiling.records.step import IsolatedTimes, StepParts
from accelbench.profiling.records.work import Bound, Work
from accelbench.report.stored_run import Run
from accelbench.reproduce.paper import load_paper
from accelbench.workloads import bilstm_har, deep_mnist_embryo
from tests.fixtures.made_up_runs import DRAWN, HAR, SAMPLE, card, judged, machine, run_of, searched, trained
from tests.fixtures.report_records import record, stepped, timing, unmeasured

COLAB = System(os="Ubuntu", kernel="6.6", runtime="colab")
DEDICATED = System(os="Debian", kernel="6.1")
GPUS = machine(8, [card(index=0), card(index=1)])
OWN_IMAGES = Data("4,000 images of the folder embryo", train=3200, held_out=800)
WOBBLE = (1.0, 1.001, 0.999)
"""Factors of the times of three runs with a spread well below 3 %."""


def lstm(device: str, seconds: float, units: int = 128, batch: int = 64, **changes: Any) -> Record:
    return trained("bilstm-har", device, seconds, units=units, layers=2, batch=batch, **changes)


def four(device: str, images: float, text: float) -> list[Record]:
    times = {"cnn-mnist": images, "dbn-mnist": images, "bilstm-imdb": text, "bigru-imdb": text}
    return [trained(name, device, seconds) for name, seconds in times.items()]


def ceiling(device: str, rate: float) -> Record:
    return record(
        "peak-arith", device, figure="flops", work=Work(flops=rate * 1e-3), ceiling=True,
        bound=Bound("arithmetic", None, "float32"), params={"dtype": "float32"},
    )  # fmt: skip


def network(device: str, seconds: float, **changes: Any) -> Record:
    return trained("cnn-mnist", device, seconds, **{"batch": 128, "width": 100} | changes)


def embryo(seconds: float, device: str = "gpu", **changes: Any) -> Record:
    params = {"image": 64, "batch": 48, "visible": "all", "held": "nothing"}
    return trained("deep-mnist-embryo", device, seconds, **params | changes)


def framework(backend: str, seconds: float, **params: int) -> Record:
    return trained("resnet50", "cpu", seconds, backend=backend, image=64, batch=8, **params)


def colab(**changes: Any) -> Environment:
    return machine(gpus=[card()], system=COLAB, **changes)


def dedicated(name: str = "NVIDIA H200") -> Environment:
    return machine(8, [card(name)], system=DEDICATED)


def sweep(seconds: Iterable[float], units: Iterable[int] = (16, 32, 64, 128, 256)) -> list[Run]:
    return [run_of(*(lstm("cpu", s, unit) for s, unit in zip(seconds, units, strict=True)))]


def cloud(cloud_s: float) -> list[Run]:
    """Return three runs each of a search on the same GPU model in the cloud and in a dedicated machine."""
    return [run_of(searched("gpu", cloud_s * w), where=colab()) for w in WOBBLE] + [
        run_of(searched("gpu", w), where=dedicated()) for w in WOBBLE
    ]


def cores(limit: float, bound: Any) -> list[Run]:
    """Return a run with several numbers of host cores; a step takes at least `limit` seconds."""
    profile = Profile(bottleneck=Bottleneck(bound=bound))
    steps = {count: max(limit, 1.0 / count) for count in (1, 2, 4, 8)}
    points = [trained("detection", "gpu", s, host_cores=n, batch=8, profile=profile) for n, s in steps.items()]
    return [run_of(*points, where=machine(8, [card()]))]


def server(gpu_s: float) -> list[Run]:
    """Return a run on 1 to 8 cores of a CPU, and a run on a GPU."""
    series = [network("cpu", 1.0 / count, host_cores=count) for count in (1, 2, 4, 8)]
    return [run_of(*series, where=machine(8)), run_of(network("gpu", gpu_s))]


def gpus(of_several: float, both: float) -> list[Run]:
    """Return runs with one visible GPU, one used GPU of two, and two used GPUs."""
    return [
        run_of(
            embryo(w, visible="used", strategy="none"),
            embryo(of_several * w, strategy="none"),
            embryo(both * w, devices=2, strategy="mirrored"),
            where=GPUS,
        )
        for w in WOBBLE
    ]


def memory(host: float | None, gpu: float | None) -> list[Run]:
    """Return a run with half of the host's and half of the GPU's memory occupied; None is a failed point."""

    def point(held: str, seconds: float | None) -> Record:
        done = embryo(seconds or 1.0, held=held)
        params = done.point.params
        failed = {"device": "gpu", "params": params, "backend": "tensorflow"}
        return done if seconds else unmeasured("deep-mnist-embryo", "failed", "out of memory", **failed)

    return [run_of(point("host-memory", host), point("gpu-memory", gpu))]


def step(own_s: float) -> list[Run]:
    """Return a run with a step of one second in two processes, of which rank 0 computes for `own_s` seconds."""
    parts = StepParts(
        step_s=1.0, compute_s=own_s, input_s=0.0, wait_s=0.0, exposed_s=max(0.0, 1.0 - own_s), hidden_s=0.0,
        exchange_s={"with and without": 1.0 - own_s}, bytes=4e6, unexplained_s=0.0,
    )  # fmt: skip
    isolated = IsolatedTimes(apart_s=timing(own_s, count=20).samples, input_s=0.0, alone_s=[0.01], bytes=4e6)
    steps = stepped(timing(1.0, count=48, timer="steps", stop="epochs done"))
    done = framework("tensorflow", 1.0, processes=2)
    return [run_of(done.model_copy(update={"parts": parts, "seen": isolated, "timing": steps}))]


def activity(units: int, accuracy: float, device: str = "tpu", layers: int = 2, **changes: Any) -> Record:
    metrics = {"test_accuracy": Metric(accuracy), "test_accuracy_std": Metric(0.005)}
    whole = {"batch": 64, "epochs": 30, "repeats": 5, "data": HAR} | changes
    return trained("bilstm-har", device, 0.1, units=units, layers=layers, metrics=metrics, **whole)


def accuracies(best: int, accuracy: float) -> list[Run]:
    return [run_of(*(activity(units, accuracy if units == best else 0.9) for units in (32, 64, 128, 256)))]


def layered(layers: int) -> list[Run]:
    grid = [(units, count) for units in (32, 128) for count in (1, 3)]
    return [run_of(*(activity(u, 0.95 if (u, n) == (32, layers) else 0.9, "gpu", n) for u, n in grid))]


def embryos(accuracy: float, data: Data = OWN_IMAGES) -> list[Run]:
    metrics = {"test_accuracy": Metric(accuracy)}
    return [run_of(embryo(0.1, epochs=25, batch=50, data=data, metrics=metrics))]


def text(*seconds: float) -> list[Run]:
    sizes = zip((16, 64, 256), seconds, strict=True)
    return [run_of(*(trained("bilstm-imdb", "cpu", s, units=units, batch=32) for units, s in sizes))]


def runtime(name: str) -> list[Run]:
    gpu = card(name).model_copy(update={"multiprocessors": 13, "memory_bytes": 11_441 << 20})
    cpu = machine().cpu.model_copy(update={"frequency_mhz": 2000.0})
    size = Memory(total_bytes=13_600_000_000, available_bytes=12_000_000_000)
    where = machine(system=COLAB, memory=size, cpu=cpu).model_copy(update={"gpus": [gpu]})
    return [run_of(network("gpu", 1.0), where=where)]


def several(count: int) -> list[Run]:
    where = machine(gpus=[card(index=number) for number in range(count)], system=COLAB)
    return [run_of(network("gpu", 1.0), where=where)]


def grown(at_256: float) -> list[Run]:
    return [
        run_of(lstm("cpu", 1.0), lstm("cpu", at_256, 256)),
        run_of(lstm("gpu", 0.04), lstm("gpu", 0.04, 256)),
    ]


def course(axis: str, small: float, large: float) -> list[Run]:
    """Return runs with these ratios of the GPU's to the TPU's time at the values 32 and 1024 of an axis."""
    gpu = run_of(*(lstm("gpu", 1.0, **{axis: value}) for value in (32, 1024)))
    return [gpu, run_of(lstm("tpu", 1 / small, **{axis: 32}), lstm("tpu", 1 / large, **{axis: 1024}))]


def dense(*ratios: tuple[int, float], **changes: Any) -> list[Run]:
    """Return a run on a GPU and one on a TPU, with these ratios of their times by batch."""
    shared: dict[str, Any] = {"layers": 4, "nodes": 4096, "backend": "jax"} | changes
    gpu = [trained("paradnn-fc", "gpu", 1.0, batch=batch, **shared) for batch, _ in ratios]
    tpu = [trained("paradnn-fc", "tpu", 1 / ratio, batch=batch, **shared) for batch, ratio in ratios]
    return [run_of(*gpu), run_of(*tpu)]


def split(which: str, tensorflow: Iterable[float], torch: Iterable[float]) -> list[Run]:
    return [run_of(framework("tensorflow", a), framework(which, b)) for a, b in zip(tensorflow, torch, strict=True)]


STEADY = (1.0, 1.001, 0.999, 1.0, 1.0005, 0.9995)
BRIEF = stepped(timing(1.0, count=1, timer="steps", stop="epochs done"))
FAILED = {"params": {"units": 128, "layers": 2, "batch": 64}, "backend": "tensorflow"}
DECIDED: list[tuple[str, list[Run], list[Run]]] = [
    ("C1", cloud(1.0), cloud(1.5)),
    ("C2", [run_of(searched("cpu", 1.0)), run_of(searched("gpu", 0.1))],
           [run_of(searched("cpu", 1.0)), run_of(searched("gpu", 10.0))]),
    ("C3", *([run_of(network("cpu", 0.5), where=machine(20)), run_of(network("gpu", s))] for s in (0.05, 5.0))),
    ("C4", several(1), several(2)),
    ("C5", cores(0.001, "input-bound"), cores(0.5, "device-bound")),
    ("K1", sweep((1.0, 1.1, 1.2, 4.0, 16.0)), sweep((1.0, 4.0, 16.0, 17.0, 18.0))),
    ("K2", *([run_of(lstm("cpu", 1.0)), run_of(lstm("gpu", s))] for s in (0.04, 4.0))),
    ("K2", *([run_of(lstm("cpu", 1.0)), run_of(lstm("tpu", s))] for s in (0.04, 4.0))),
    ("K3", grown(4.0), grown(0.5)),
    ("K4", course("batch", 0.5, 2), course("batch", 0.5, 0.7)),
    ("K4", course("batch", 0.5, 2), course("batch", 2, 0.5)),
    ("K5", course("units", 0.5, 2), course("units", 0.5, 0.7)),
    ("K5", course("units", 0.5, 2), course("units", 2, 0.5)),
    ("K6", accuracies(128, 0.95), accuracies(64, 0.95)),
    ("K7", layered(3), layered(1)),
    ("K10d", runtime("Tesla K80"), runtime("Tesla T4")),
    ("L3", embryos(0.86), embryos(0.97)),
    ("L3", embryos(0.86), embryos(0.7)),
    ("L5", *([run_of(embryo(0.2, "cpu", epochs=4)), run_of(embryo(s, epochs=25))] for s in (0.01, 1.0))),
    ("L6", memory(1.0, 2.0), memory(2.0, 1.0)),
    ("L6", memory(1.0, None), memory(None, 1.0)),
    ("L7", *([run_of(embryo(one * w, host_cores=1), embryo(w, host_cores=8), where=machine(8, [card()]))
              for w in (1.0, 1.002, 0.998)] for one in (1.0, 3.0))),
    ("L8", *([run_of(embryo(s), where=colab()), run_of(embryo(1.0), where=dedicated("NVIDIA GeForce GTX 980 Ti"))]
             for s in (3.0, 0.3))),
    ("L9", gpus(1.0, 0.5), gpus(1.5, 0.5)),
    ("L9", gpus(1.0, 0.5), gpus(1.0, 2.0)),
    ("P1", dense((64, 0.82), (1024, 6.1)), dense((64, 3.0), (16384, 0.82))),
    ("P2", dense((64, 0.82)), dense((64, 1.5))),
    ("P3", dense((256, 3.0), (1024, 6.1), (16384, 11.0)), dense((256, 0.5), (16384, 0.8))),
    ("S1", *([run_of(*four("cpu", 10, 10)), run_of(*four("gpu", s, s))] for s in (1.0, 30.0))),
    ("S1", *([run_of(*four("cpu", 10, 10)), run_of(*four("tpu", s, s))] for s in (1.0, 30.0))),
    ("S2", *([run_of(*four("cpu", 10, 10)), run_of(*four("gpu", a, b))] for a, b in ((0.1, 5), (5, 0.1)))),
    ("S4", text(1.0, 2.0, 4.0), text(1.0, 4.0, 2.0)),
    ("W1", split("torch", [1.0], [2.0]), split("torch", STEADY, STEADY[::-1])),
    ("W2", step(0.6), step(1.5)),
    ("C7", *([run_of(searched("gpu", w, impl="prefix"), searched("gpu", s * w, impl="cdp")) for w in WOBBLE]
             for s in (2.0, 1.0))),
]  # fmt: skip
INCONCLUSIVE: list[tuple[str, str, list[Run]]] = [
    ("C1", "no such host", [run_of(searched("gpu", 1.0), where=colab())]),
    ("C1", "other hardware class", [run_of(searched("gpu", 1.0), where=colab()),
                                    run_of(searched("gpu", 9.0), where=dedicated("NVIDIA T4"))]),
    ("C2", "no such point", [run_of(searched("cpu", 1.0, cores="one")), run_of(searched("gpu", 0.1))]),
    ("C3", "other hardware class", [run_of(network("cpu", 1.0)), run_of(network("gpu", 0.01))]),
    ("C4", "other hardware class", [run_of(network("gpu", 1.0))]),
    ("C5", "proves nothing", cores(0.001, "device-bound")),
    ("C6", "opinion", [run_of(lstm("cpu", 1.0))]),
    ("C7", "no such point", [run_of(searched("gpu", 1.0, impl="prefix"))]),
    ("K1", "interval too wide", sweep((1, 2, 4, 8, 16))),
    ("K1", "no such point", sweep((1.0, 4.0), (64, 128))),
    ("K2", "no such device", []),
    ("K2", "no such device", [run_of(lstm("cpu", 1.0, noise=["other work took 90 % of a CPU"]))]),
    ("K2", "interval too wide", [run_of(lstm("cpu", 1.0)), run_of(lstm("gpu", 0.98))]),
    ("K2", "other seeds", [run_of(lstm("cpu", 1.0, seed=1)), run_of(lstm("gpu", 0.04, seed=2))]),
    ("K2", "too few samples", [run_of(lstm("cpu", 1.0, timing=BRIEF)), run_of(lstm("gpu", 0.04))]),
    ("K2", "no such point", [run_of(lstm("cpu", 1.0, host_cores=1)), run_of(lstm("gpu", 0.04, host_cores=1))]),
    ("K3", "no such point", [run_of(lstm("cpu", 1.0)), run_of(lstm("gpu", 0.04))]),
    ("K4", "no such device", [run_of(lstm("gpu", 1.0), lstm("gpu", 1.0, batch=1024))]),
    ("K6", "interval too wide", accuracies(128, 0.905)),
    ("K6", "no real data", [run_of(activity(128, 0.95, data=SAMPLE), activity(32, 0.9, data=SAMPLE))]),
    ("K6", "synthetic data", [run_of(activity(128, 0.95, data=DRAWN), activity(32, 0.9, data=DRAWN))]),
    ("K6", "no such point", [run_of(activity(128, 0.95, epochs=1), activity(32, 0.9, epochs=1))]),
    ("L3", "synthetic data", embryos(0.87, DRAWN)),
    ("L4", "not measured here", []),
    ("L6", "interval too wide", memory(1.0, 1.0)),
    ("L6", "no such point", [run_of(embryo(1.0))]),
    ("L9", "no such point", [run_of(embryo(1.0, strategy="none"))]),
    ("L11", "not measured here", []),
    ("P1", "no such device", dense((64, 0.82), (1024, 6.1))[:1]),
    ("P1", "no such point", dense((64, 0.82))),
    ("P2", "no such point", dense((256, 3.0))),
    ("P3", "the points disagree", dense((256, 0.5), (16384, 11.0))),
    ("P3", "no such point", dense((256, 3.0), nodes=32)),
    ("P3", "other parameters", [*dense((256, 3.0), backend="tensorflow")[:1], dense((256, 3.0))[1]]),
    ("S1", "the points disagree", [run_of(*four("cpu", 10, 10)), run_of(*four("gpu", 1, 30))]),
    ("S2", "interval too wide", [run_of(*four("cpu", 10, 10)), run_of(*four("gpu", 1, 1.02))]),
    ("S3", "no such point", [run_of(*four("cpu", 10, 10)), run_of(*four("gpu", 1, 1))]),
    ("W1", "interval too wide", split("torch", [1.0], [1.05])),
    ("W1", "no such point", [run_of(framework("tensorflow", 1.0, processes=2), framework("torch", 2.0, processes=1))]),
    ("W2", "interval too wide", step(0.9999)),
    ("W2", "no such point", [run_of(framework("tensorflow", 1.0))]),
    ("W5", "no such point", [run_of(framework("tensorflow", 1.0))]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "confirming", "refuting"), DECIDED)
def test_runs_confirm_and_refute(name: str, confirming: list[Run], refuting: list[Run]) -> None:
    assert judged(name, *confirming).verdict == "confirmed"
    assert judged(name, *refuting).verdict == "refuted"


@pytest.mark.parametrize(("name", "reason", "runs"), INCONCLUSIVE)
def test_runs_are_inconclusive(name: str, reason: str, runs: list[Run]) -> None:
    found = judged(name, *runs)
    assert (found.verdict, found.reason) == ("inconclusive", reason)
    assert found.why


@pytest.mark.parametrize(
    ("name", "runs", "ours"),
    [
        ("C2", DECIDED[1][1], "× 9.95 (8.66–11.4)"),
        ("C5", DECIDED[4][2], "2 cores"),
        ("K1", DECIDED[5][1], "slope 0.13 below, 1.87 above"),
        ("K3", grown(4.0), "× 25.0 at 128, × 100 at 256, growth × 4.00 (3.03–5.28)"),
        ("K4", course("batch", 0.5, 2), "× 0.500 at 32, × 2.00 at 1024"),
        ("K6", accuracies(128, 0.95), "0.9500 compared with 0.9000 at units=32"),
        ("L3", embryos(0.86), "0.860 (0.834–0.882)"),
        ("L9", gpus(1.0, 0.5), "× 1.00 (0.998–1.00) … × 2.00 (1.99–2.01)"),
        ("W2", step(0.6), "40 % (39 % to 40 %)"),
    ],
)
def test_the_deciding_numbers_are_shown(name: str, runs: list[Run], ours: str) -> None:
    assert judged(name, *runs).ours == ours


@pytest.mark.parametrize(("seconds", "faster"), [(0.001, True), (1.0, False)])
def test_c3_fewer_cores_predict_by_the_law(seconds: float, faster: bool) -> None:
    found = judged("C3", *server(seconds))
    assert found.verdict == "predicted"
    assert ("not faster" in found.why) is not faster
    assert found.ours.startswith("1,280 windows/s on 20 cores")


@pytest.mark.parametrize(("gpu", "exceeds"), [(1e15, False), (2e12, True)])
def test_s3_agreement_with_the_ceilings_proves_nothing(gpu: float, exceeds: bool) -> None:
    cpu = run_of(*four("cpu", 10, 10), ceiling("cpu", 1e12))
    found = judged("S3", cpu, run_of(*four("gpu", 1, 1), ceiling("gpu", gpu)))
    assert (found.verdict, found.reason) == ("inconclusive", "proves nothing")
    assert ("exceed" in found.why) is exceeds


def test_k2_the_ratio_is_shown_next_to_the_ratio_of_the_ceilings() -> None:
    runs = run_of(lstm("cpu", 1.0), ceiling("cpu", 1e12)), run_of(lstm("gpu", 0.04), ceiling("gpu", 1e14))
    last = judged("K2", *runs).evidence[-1]
    assert "0.250×" in last
    assert last.endswith("× 100")


def test_noisy_points_are_inconclusive_unless_included() -> None:
    runs = run_of(lstm("cpu", 1.0, noise=["steal time of 12 %"])), run_of(lstm("gpu", 0.04))
    found = judged("K2", *runs)
    assert (found.verdict, found.reason) == ("inconclusive", "noisy")
    assert "steal time of 12 %" in found.why
    assert judged("K2", *runs, include_noisy=True).verdict == "confirmed"
    half = run_of(lstm("cpu", 1.0), lstm("cpu", 0.001, batch=128, noise=["steal time"]))
    left = judged("K2", half, run_of(lstm("gpu", 0.04), lstm("gpu", 0.04, batch=128)))
    assert (left.verdict, len(left.evidence)) == ("confirmed", 1)
    middle = run_of(lstm("cpu", 1.0, 16), lstm("cpu", 1.2, 64, noise=["steal time"]), lstm("cpu", 16.0, 256))
    assert judged("K1", middle).reason == "noisy"
    assert "units=64" in judged("K1", middle).why
    assert judged("K1", middle, include_noisy=True).verdict == "confirmed"


def test_different_parameters_and_failures_are_reported() -> None:
    other = judged("K2", run_of(lstm("cpu", 1.0, precision="float32")), run_of(lstm("gpu", 0.04, precision="half")))
    assert other.reason == "other parameters"
    assert "precision float32 / half" in other.why
    broken = judged("K2", run_of(unmeasured("bilstm-har", "failed", "out of memory", **FAILED)), run_of(lstm("gpu", 1)))
    assert broken.reason == "not measured"
    assert "out of memory" in broken.why
    assert "accelbench data fetch har" in judged("K6", run_of(activity(128, 0.95, data=SAMPLE))).why
    assert "gpus.0.name is Tesla T4, published K80" in judged("K10d", *runtime("Tesla T4")).evidence


def test_k2_compares_steps_regardless_of_the_epochs() -> None:
    found = judged("K2", run_of(lstm("cpu", 1.0, epochs=1)), run_of(lstm("gpu", 0.04, epochs=30, repeats=5)))
    assert found.verdict == "confirmed"


def test_machines_must_agree_and_runs_of_one_machine_are_one_side() -> None:
    gpu = run_of(lstm("gpu", 1.0), where=machine(gpus=[card()]))
    slow, fast = run_of(lstm("cpu", 10.0), where=machine(2)), run_of(lstm("cpu", 0.1), where=machine(64))
    assert judged("K2", slow, gpu).verdict == "confirmed"
    assert judged("K2", slow, fast, gpu).reason == "the points disagree"
    cpus = [run_of(lstm("cpu", seconds)) for seconds in (1.0, 1.1, 0.9)]
    found = judged("K2", *cpus, run_of(lstm("gpu", 0.04)))
    assert (found.verdict, len(found.evidence)) == ("confirmed", 1)


def test_s4_each_device_has_its_own_sweep_and_missing_benchmarks_are_noted() -> None:
    where = machine(8, [card()])
    runs = [
        run_of(*(trained("bilstm-imdb", device, s * t, units=u, batch=32) for t, u in ((1, 16), (3, 64))), where=where)
        for device, s in (("cpu", 1.0), ("gpu", 0.01))
    ]
    found = judged("S4", *runs)
    assert (found.verdict, len(found.evidence)) == ("confirmed", 2)
    assert "dbn-mnist" in found.why


@pytest.mark.parametrize(("name", "shown"), [("W3", "100 % on 1"), ("W4", "no such point"), ("K11", "no such point")])
def test_claims_without_a_published_value_show_the_results(name: str, shown: str) -> None:
    found = judged(name, run_of(*(framework("tensorflow", 1.0, processes=count) for count in (1, 2))))
    assert (found.verdict, found.reason) == ("inconclusive", "no published figure")
    assert shown in found.evidence[0]


def test_notes_state_the_parameters_of_our_models() -> None:
    notes = {note.id: note.note for name in ("kimm2021", "lawrence2017") for note in load_paper(name).note}
    assert all(f"{bilstm_har.parameters(128, 2, channels):,}" in notes["K9"] for channels in (9, 6))
    assert f"{deep_mnist_embryo.parameters(64, 5):,}" in notes["L2"]
