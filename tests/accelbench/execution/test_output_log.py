"""Log of a process: size limit, beginning and end of the output, closing while another process holds the pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.execution import output_log
from accelbench.execution.output_log import END_BYTES, HEAD_BYTES, OutputLog
from accelbench.profiling.files import Refused

FLOOD = f"""
import os
print("first", flush=True)
for number in range(64):
    os.write(1, b"x" * {1 << 20})
print("last")
"""
LEFT_BEHIND = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    print("from the child", flush=True)
    while True:
        os.write(1, b"y" * 100_000)
time.sleep(0.2)
"""


def output_of(path: Path, code: str) -> OutputLog:
    log = OutputLog(path)
    subprocess.run([sys.executable, "-c", code], stdout=log.output, check=True)
    log.started()
    return log


def test_long_output_keeps_its_first_and_last_lines(tmp_path: Path) -> None:
    log = output_of(tmp_path / "log", FLOOD)
    assert log.last_bytes(6) == b"xlast\n"
    log.close()
    content = (tmp_path / "log").read_bytes()
    assert content.startswith(b"first\nx")
    assert content.endswith(b"xlast\n")
    assert HEAD_BYTES + END_BYTES <= len(content) < HEAD_BYTES + END_BYTES + 100
    left_out = len(b"first\nlast\n") + (64 << 20) - HEAD_BYTES - END_BYTES
    assert f"{left_out:,}".encode() in content


@pytest.mark.parametrize("size", [10, HEAD_BYTES - 6, HEAD_BYTES, HEAD_BYTES + END_BYTES - 11])
def test_short_output_is_stored_unchanged(tmp_path: Path, size: int) -> None:
    code = f"import os; os.write(1, b'first\\n'); print('x' * {size}, flush=True)"
    output_of(tmp_path / "log", code).close()
    output_of(tmp_path / "log", "print('second')").close()
    assert (tmp_path / "log").read_bytes() == b"first\n" + b"x" * size + b"\nsecond\n"


def test_a_process_outside_the_group_that_writes_for_ever_does_not_delay_closing(tmp_path: Path) -> None:
    log = output_of(tmp_path / "log", LEFT_BEHIND)
    assert log.last_bytes(1) == b"y"
    log.close()
    assert (tmp_path / "log").read_bytes().startswith(b"from the child\ny")


def test_the_log_of_many_processes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_log, "MAX_FILE_BYTES", 1000)
    for _ in range(5):
        output_of(tmp_path / "log", "print('x' * 399)").close()
    assert (tmp_path / "log").stat().st_size < 1000 + 3 * 60


def test_a_full_disk_truncates_only_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = OutputLog(tmp_path / "log")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file)
    os.write(log.output, b"said\n")
    log.started()
    assert log.last_bytes(5) == b"said\n"
    log.close()
    os.close(full)


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused):
        OutputLog(tmp_path / "log")
    assert not (tmp_path / "elsewhere").exists()


def test_without_a_file_the_last_bytes_are_kept() -> None:
    log = OutputLog(None)
    subprocess.run([sys.executable, "-c", FLOOD], stdout=log.output, check=True)
    log.started()
    assert log.last_bytes(6) == b"xlast\n"
    log.close()
