"""Tests of the fields of an environment: paths and formatted values."""

from __future__ import annotations

import pytest

from accelbench.environment.fields import Leaf, facts, in_words
from tests.fixtures.compare_runs import gpu, machine


def test_each_field_has_a_path_and_reasons_are_excluded() -> None:
    found = facts(machine(gpus=[gpu(), gpu("NVIDIA H100", index=1)], unknown={"cpu.governor": "the kernel shows none"}))
    assert found["gpus.1.name"] == "NVIDIA H100"
    assert found["cpu.isa"] == ["avx2"]
    assert found["software.libraries.numpy"] == "2.2.0"
    assert found["limits.cpu_quota"] is None
    assert not [path for path in found if path.startswith("unknown")]


@pytest.mark.parametrize(
    ("fact", "value", "text"),
    [
        ("memory.total_bytes", 64 << 30, "64 GiB"),
        ("cpu.frequency_mhz", 2445.4, "2,445 MHz"),
        ("gpus.0.power_limit_w", 350.5, "350.5 W"),
        ("limits.cpu_quota", 1.5, "1.5 CPUs"),
        ("gpus.0.ecc", True, "on"),
        ("cpu.isa", ["avx2", "fma"], "avx2, fma"),
        ("cpu.usable", 16, "16"),
        ("cpu.model", "EPYC 9654", "EPYC 9654"),
        ("software.revision", "0123456789abcdef-dirty", "0123456789ab-dirty"),
    ],
)
def test_values_are_formatted_with_units(fact: str, value: Leaf, text: str) -> None:
    assert value is not None
    assert in_words(fact, value) == text
