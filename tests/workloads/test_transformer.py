"""The language model learns text within a minute, fails verification if it does not, and skips infeasible points."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelbench.profiling.benchmark import Skip, Training
from accelbench.profiling.records.point import Point, Scalar
from accelbench.workloads import transformer as workload
from accelbench.workloads.distribution.find import strategy_of
from accelbench.workloads.language.sizes import SIZES
from accelbench.workloads.transformer import require_flash, require_room, transformer

DEFAULTS: dict[str, Scalar] = {
    "size": "tiny",
    "sequence": 128,
    "batch": 16,
    "steps": 64,
    "epochs": 2,
    "precision": "float32",
    "jit_compile": "auto",
}


def point(backend: str = "tensorflow", device: str = "cpu", **params: Scalar) -> Point:
    return Point("transformer", device, DEFAULTS | params, backend)  # type: ignore[arg-type]


def trained(of: Point) -> tuple[bool, float]:
    """Return whether the trained model passed verification, and its bits per byte."""
    task = transformer(of)
    assert isinstance(task, Training)
    history = task.fit([])
    found = task.evaluate()
    return task.verify(history, found).passed, found["test_bits_per_byte"].value


@pytest.mark.slow
def test_it_learns_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "tiny", replace(SIZES["tiny"], blocks=2))
    passed, bits = trained(point())
    assert passed
    assert bits < 3.4


@pytest.mark.slow
def test_a_model_of_byte_frequencies_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "LEARNT_TOKENS", 32 * 16 * 128)
    monkeypatch.setattr(workload, "LEARNT_STEPS", 32)
    monkeypatch.setitem(SIZES, "tiny", replace(SIZES["tiny"], blocks=1, hidden=16, rate=8e-5))
    passed, bits = trained(point(steps=16))
    assert not passed
    assert bits > 3.5


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (point(attention="flash"), "TensorFlow"),
        (point("jax", attention="flash"), "GPUs and TPUs"),
        (point("torch", "gpu", attention="flash"), "precision=mixed_bfloat16"),
    ],
)
def test_flash_attention_is_skipped_where_unsupported(of: Point, reason: str) -> None:
    with pytest.raises(Skip, match=reason):
        require_flash(of)


def test_flash_attention_is_accepted_where_supported() -> None:
    require_flash(point("jax", "gpu", attention="flash", precision="mixed_bfloat16"))


def test_a_model_that_does_not_fit_in_memory_is_skipped_with_sizes() -> None:
    with pytest.raises(Skip, match=r"[\d.]+ PiB"):
        require_room(strategy_of(point(size="1b", sequence=1 << 17, batch=64)), SIZES["1b"])
    require_room(strategy_of(point()), SIZES["tiny"])


def test_each_replica_on_a_cpu_needs_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    size = SIZES["tiny"]
    alone = size.bytes(16, 128, half=False, recomputed=False)
    monkeypatch.setattr("accelbench.profiling.machine.free_memory.available_bytes", lambda: int(2.01 * alone))
    require_room(strategy_of(point()), size)
    require_room(strategy_of(point(devices=2)), replace(size, blocks=3))  # each replica has half of the batch
    with pytest.raises(Skip, match="MiB"):
        require_room(strategy_of(point(devices=2)), size)


def test_recomputation_needs_less_memory() -> None:
    size = SIZES["350m"]
    kept, recomputed = (size.bytes(8, 2048, half=True, recomputed=once) for once in (False, True))
    assert recomputed < 0.5 * kept
    assert size.bytes(8, 2048, half=True, recomputed=False) < size.bytes(8, 2048, half=False, recomputed=False)


@pytest.mark.slow
def test_a_sequence_longer_than_the_text_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    from accelbench.workloads.data.texts import Text, split

    def short() -> Text:
        return split("short files", [(f"{number}", b"word " * 9) for number in range(30)])

    monkeypatch.setattr("accelbench.workloads.data.texts.load_text", short)
    with pytest.raises(Skip, match=r"\bsequence=512\b.*\b90 bytes"):
        transformer(point(sequence=512))
