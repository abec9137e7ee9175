"""Tests of locks on file systems with and without them."""

from __future__ import annotations

import errno
import fcntl
import warnings
from pathlib import Path
from typing import NoReturn

import pytest
from filelock import Timeout

from accelbench.profiling.locks import SOFT, acquire


@pytest.mark.parametrize("code", [None, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_lock_excludes_others_until_it_is_released(
    code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise OSError(code, "no locks")

    if code is not None:
        monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / ".lock"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock = acquire(path)
        with pytest.raises(Timeout):
            acquire(path)
        lock.release()
        acquire(path).release()
    assert not (tmp_path / f".lock{SOFT}").exists()


def test_another_error_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="input/output error"):
        acquire(tmp_path / ".lock")
    assert not (tmp_path / f".lock{SOFT}").exists()
