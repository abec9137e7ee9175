"""Tests of CuPy streams of `cupy_device`, with a stand-in for CuPy 14 and without a device."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from accelbench.profiling.devices import cupy_device


class Stream:
    """Stand-in for CuPy's stream class: accepts a stream by CUDA's protocol and stores its owner."""

    def __init__(self, pointer: int, owner: object = None) -> None:
        self.ptr, self.owner = pointer, owner

    @classmethod
    def from_external(cls, stream: Any) -> Stream:
        version, pointer = stream.__cuda_stream__()
        assert version == 0
        return cls(pointer, owner=stream)


def external_stream(pointer: int) -> Stream:
    warnings.warn("ExternalStream is deprecated", DeprecationWarning, stacklevel=2)
    return Stream(pointer)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    cuda = SimpleNamespace(Stream=Stream, ExternalStream=external_stream)
    monkeypatch.setattr(Stream, "null", Stream(0), raising=False)
    module = ModuleType("cupy")
    monkeypatch.setattr(module, "cuda", cuda, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", module)
    cupy_device.cupy_stream.cache_clear()
    return cuda


@pytest.mark.filterwarnings("error")
def test_a_stream_is_passed_by_cudas_protocol_and_keeps_its_owner(cupy: SimpleNamespace) -> None:
    stream = cupy_device.cupy_stream(0x7F00)
    assert stream.ptr == 0x7F00
    assert stream.owner is not None, "CuPy would destroy a stream without an owner"
    assert cupy_device.cupy_stream(0x7F00) is stream


@pytest.mark.filterwarnings("error")
def test_the_default_stream_is_cupys_null_stream(cupy: SimpleNamespace) -> None:
    assert cupy_device.cupy_stream(0) is cupy.Stream.null
