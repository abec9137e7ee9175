"""Claims about hosts, their cores and their cards, decided both ways by made-up runs."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.report.stored_run import Run
from profiling.records.bottleneck import Bottleneck
from profiling.records.environment import Environment, Memory, System
from profiling.records.record import Profile, Record
from tests.fixtures.made_up_runs import card, judged, machine, run_of, searched, trained
from tests.fixtures.report_records import unmeasured

COLAB = System(os="Ubuntu", kernel="6.6", runtime="colab")
DEDICATED = System(os="Debian", kernel="6.1")


def colab(**changes: Any) -> Environment:
    return machine(gpus=[card()], system=COLAB, **changes)


def small_network(device: str, seconds: float, **changes: Any) -> Record:
    return trained("cnn-mnist", device, seconds, **{"batch": 128, "width": 100} | changes)


@pytest.mark.parametrize(("seconds", "word"), [(1.0, "confirmed"), (1.5, "refuted")])
def test_c1_the_same_card_is_as_fast_in_the_cloud(seconds: float, word: str) -> None:
    cloud = [run_of(searched("gpu", seconds * wobble), where=colab()) for wobble in (1, 1.001, 0.999)]
    own = [
        run_of(searched("gpu", wobble), where=machine(8, [card()], system=DEDICATED)) for wobble in (1, 1.001, 0.999)
    ]
    found = judged("C1", *cloud, *own)
    assert found.word == word


def test_c1_two_machines_of_one_kind_are_no_comparison() -> None:
    found = judged("C1", run_of(searched("gpu", 1.0), where=colab()))
    assert (found.word, found.reason) == ("cannot tell", "no such host")


def test_c1_other_cards_without_a_ceiling_are_another_hardware_class() -> None:
    other = machine(8, [card("NVIDIA T4")], system=DEDICATED)
    found = judged("C1", run_of(searched("gpu", 1.0), where=colab()), run_of(searched("gpu", 9.0), where=other))
    assert (found.word, found.reason) == ("cannot tell", "other hardware class")


@pytest.mark.parametrize(("seconds", "word"), [(0.05, "confirmed"), (5.0, "refuted")])
def test_c3_a_server_of_twenty_cores_decides_it(seconds: float, word: str) -> None:
    server = run_of(small_network("cpu", 0.5), where=machine(20))
    assert judged("C3", server, run_of(small_network("gpu", seconds))).word == word


def cores_series(device: str, one_core: float, counts: tuple[int, ...], **changes: Any) -> list[Record]:
    return [small_network(device, one_core / count, host_cores=count, **changes) for count in counts]


@pytest.mark.parametrize(("seconds", "told"), [(0.001, "is faster than"), (1.0, "is not faster than")])
def test_c3_fewer_cores_predict_by_the_law_and_say_so(seconds: float, told: str) -> None:
    server = run_of(*cores_series("cpu", 1.0, (1, 2, 4, 8)), where=machine(8))
    found = judged("C3", server, run_of(small_network("gpu", seconds)))
    assert found.word == "predicted"
    assert told in found.why
    assert "by the law of cores" in found.why


def test_c3_two_cores_without_a_series_are_another_hardware_class() -> None:
    found = judged("C3", run_of(small_network("cpu", 1.0)), run_of(small_network("gpu", 0.01)))
    assert (found.word, found.reason) == ("cannot tell", "other hardware class")
    assert "2 physical cores and not 20" in found.why


@pytest.mark.parametrize(("gpus", "word"), [(1, "confirmed"), (2, "refuted")])
def test_c4_only_the_runtime_itself_decides_it(gpus: int, word: str) -> None:
    where = machine(gpus=[card(index=number) for number in range(gpus)], system=COLAB)
    assert judged("C4", run_of(small_network("gpu", 1.0), where=where)).word == word
    elsewhere = judged("C4", run_of(small_network("gpu", 1.0)))
    assert (elsewhere.word, elsewhere.reason) == ("cannot tell", "other hardware class")


def fed(limit: float, bound: Any) -> Run:
    """A made-up series of host cores beside a GPU that takes a step in no less than that."""
    profile = Profile(bottleneck=Bottleneck(bound=bound))
    points = [
        trained("detection", "gpu", max(limit, 1.0 / count), host_cores=count, batch=8, profile=profile)
        for count in (1, 2, 4, 8)
    ]
    return run_of(*points, where=machine(8, [card()]))


@pytest.mark.parametrize(
    ("limit", "bound", "word", "reason"),
    [
        (0.001, "input-bound", "confirmed", None),
        (0.5, "device-bound", "refuted", None),
        (0.001, "device-bound", "cannot tell", "proves nothing"),
    ],
)
def test_c5_a_device_that_needs_more_cores_than_there_are(limit: float, bound: str, word: str, reason: str) -> None:
    found = judged("C5", fed(limit, bound))
    assert (found.word, found.reason) == (word, reason)


def embryo(seconds: float, **changes: Any) -> Record:
    whole = {"image": 64, "batch": 48, "visible": "all", "held": "nothing"}
    return trained("deep-mnist-embryo", "gpu", seconds, **whole | changes)


@pytest.mark.parametrize(("one", "word"), [(1.0, "confirmed"), (3.0, "refuted")])
def test_l7_eight_host_cores_bring_little_beside_a_gpu(one: float, word: str) -> None:
    runs = [
        run_of(*(embryo(s * wobble, host_cores=c) for s, c in ((one, 1), (1.0, 8))), where=machine(8, [card()]))
        for wobble in (1.0, 1.002, 0.998)
    ]
    assert judged("L7", *runs).word == word


@pytest.mark.parametrize(("cloud", "word"), [(3.0, "confirmed"), (0.3, "refuted")])
def test_l8_the_cloud_beside_a_local_card(cloud: float, word: str) -> None:
    own = run_of(embryo(1.0), where=machine(8, [card("NVIDIA GeForce GTX 980 Ti")], system=DEDICATED))
    assert judged("L8", run_of(embryo(cloud), where=colab()), own).word == word


@pytest.mark.parametrize(
    ("beside", "several", "word"), [(1.0, 0.5, "confirmed"), (1.5, 0.5, "refuted"), (1.0, 2.0, "refuted")]
)
def test_l9_devices_that_are_not_used_change_nothing(beside: float, several: float, word: str) -> None:
    where = machine(8, [card(index=0), card(index=1)])
    runs = [
        run_of(
            embryo(1.0 * wobble, visible="used", strategy="none"),
            embryo(beside * wobble, strategy="none"),
            embryo(several * wobble, devices=2, strategy="mirrored"),
            where=where,
        )
        for wobble in (1.0, 1.001, 0.999)
    ]
    assert judged("L9", *runs).word == word


def test_l9_needs_one_device_alone_and_beside_others() -> None:
    found = judged("L9", run_of(embryo(1.0, strategy="none")))
    assert (found.word, found.reason) == ("cannot tell", "no such point")


@pytest.mark.parametrize(("name", "word"), [("Tesla K80", "confirmed"), ("Tesla T4", "refuted")])
def test_k10_the_runtimes_facts_are_compared_one_by_one(name: str, word: str) -> None:
    gpu = card(name).model_copy(update={"multiprocessors": 13, "memory_bytes": 11_441 << 20})
    memory = Memory(total_bytes=13_600_000_000, available_bytes=12_000_000_000)
    cpu = machine().cpu.model_copy(update={"frequency_mhz": 2000.0})
    where = machine(system=COLAB, memory=memory, cpu=cpu).model_copy(update={"gpus": [gpu]})
    found = judged("K10d", run_of(small_network("gpu", 1.0), where=where))
    assert found.word == word
    assert f"gpus.0.name is {name}, published K80" in found.evidence


def starved(held: str, seconds: float | None) -> Record:
    """A made-up training with half of that memory, which fails where it has no time."""
    if seconds is not None:
        return embryo(seconds, held=held)
    params = embryo(1.0, held=held).point.params
    return unmeasured("deep-mnist-embryo", "failed", "out of memory", device="gpu", params=params, backend="tensorflow")


@pytest.mark.parametrize(
    ("host", "gpu", "word", "reason"),
    [
        (1.0, 2.0, "confirmed", None),
        (1.0, None, "confirmed", None),
        (2.0, 1.0, "refuted", None),
        (None, 1.0, "refuted", None),
        (1.0, 1.0, "cannot tell", "interval too wide"),
    ],
)
def test_l6_half_of_either_memory(host: float | None, gpu: float | None, word: str, reason: str | None) -> None:
    found = judged("L6", run_of(starved("host-memory", host), starved("gpu-memory", gpu)))
    assert (found.word, found.reason) == (word, reason)


def test_l6_needs_both_halves() -> None:
    found = judged("L6", run_of(embryo(1.0)))
    assert (found.word, found.reason) == ("cannot tell", "no such point")
