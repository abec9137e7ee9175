"""CuPy streams of `cupy_device`, on a stand-in with the interface of CuPy 14 and no device."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from accelbench.profiling.devices import cupy_device


class Stream:
    """A stand-in for CuPy's: it takes over a stream by the protocol, and keeps what it was given."""

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
    face = SimpleNamespace(Stream=Stream, ExternalStream=external_stream)
    monkeypatch.setattr(Stream, "null", Stream(0), raising=False)
    module = ModuleType("cupy")
    monkeypatch.setattr(module, "cuda", face, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", module)
    cupy_device.cupy_stream.cache_clear()
    return face


@pytest.mark.filterwarnings("error")
def test_a_stream_is_handed_to_cupy_by_cudas_protocol_and_remains_its_makers(cupy: SimpleNamespace) -> None:
    stream = cupy_device.cupy_stream(0x7F00)
    assert stream.ptr == 0x7F00
    assert stream.owner is not None, "CuPy destroys a stream without an owner"
    assert cupy_device.cupy_stream(0x7F00) is stream


@pytest.mark.filterwarnings("error")
def test_the_default_stream_is_cupys_own_which_belongs_to_no_device(cupy: SimpleNamespace) -> None:
    assert cupy_device.cupy_stream(0) is cupy.Stream.null
