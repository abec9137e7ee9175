"""Temporary file on the measured file system, and the jobs of fio on it."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.child import child_environment, die_with_parent
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.text import format_bytes

FOLDER = "ACCELBENCH_STORAGE"
"""Environment variable with the folder whose file system is measured; by default the current folder."""
FREE_SHARE = 0.1
"""Largest share of the free space that the file takes."""
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
PAGE = 4096
BLOCK = 1 << 20
"""Bytes of a block of a file that is written or read from begin to end."""
IN_FLIGHT = 16
"""Number of such blocks in flight, where the page cache is bypassed."""
CHECKSUM = {"verify": "crc32c"}
"""Option of fio: each block is written with its checksum and its place in the file, and checked when it is read."""
MESSAGE = 300


class JobFailed(RuntimeError):
    """Error of a job of fio: its message and exit status."""


class ScratchFile:
    """File without a name: the kernel deletes it when the last process that has opened it ends."""

    def __init__(self, size: int, direct: bool) -> None:
        """Create the file; Skip without fio or enough free space, or if the page cache cannot be bypassed."""
        fio = shutil.which("fio")
        if fio is None:
            raise Skip("fio is not installed: apt install fio")
        self._fio, self._size, self._direct = fio, size, direct
        folder = Path(os.environ.get(FOLDER) or Path.cwd()).resolve()
        self._file_system = file_system_of(folder)
        if self._file_system in IN_MEMORY:
            raise Skip(f"the measured folder is in memory ({self._file_system}): set {FOLDER} to another one")
        try:
            require_space(folder, size)
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - closed with this process
        except OSError as error:
            raise Skip(f"no file can be created in the measured folder: {error.strerror} (set {FOLDER})") from None
        if direct and not self._bypasses_cache():
            raise Skip(f"{self._file_system} does not bypass the page cache (O_DIRECT): set {FOLDER} to another folder")

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def write(self, **options: object) -> float:
        """Write new random contents to newly allocated space, with fsync at the end; return the seconds."""
        os.ftruncate(self.fileno(), 0)
        os.ftruncate(self.fileno(), self._size)  # fio would replace a smaller file
        return seconds_of(self.run("write", end_fsync=1, **self._sequential, **options), "write")

    def read(self) -> float:
        """Read the file from begin to end; return the seconds."""
        return seconds_of(self.run("read", **self._sequential), "read")

    def check(self, block: int, mode: str = "read", count: int | None = None, **options: object) -> Verification:
        """Check blocks written with `CHECKSUM`: all from begin to end, or `count` at random places."""
        count = self._size // block if count is None else count
        try:
            result = self.run(mode, bs=block, iodepth=IN_FLIGHT, io_size=count * block, **CHECKSUM, **options)
            found = f"{result['read']['total_ios']:,} correct blocks"
        except JobFailed as error:
            found = str(error)
        expected = f"{count:,} correct blocks"
        where = f"{self._file_system}, page cache {'bypassed' if self._direct else 'used and emptied before reading'}"
        method = f"CRC-32C and place of each block of random bytes, read by fio from {where}"
        return Verification(found == expected, method, expected=expected, found=found)

    def run(self, mode: str, **options: object) -> dict[str, Any]:
        """Run a job of fio on the file, with its option `rw`, and return its results; raise JobFailed for an error."""
        given = {
            "rw": mode,
            "size": self._size,
            "direct": int(self._direct),
            "ioengine": "libaio" if self._direct else "psync",
            "clocksource": "clock_gettime",  # no calibration of another clock at each start
            "verify_state_save": 0,  # no file in the current folder
            "randrepeat": 0,  # other random places and contents each time
            **options,
        }
        words = [self._fio, "--name=job", f"--filename=/proc/self/fd/{self.fileno()}", "--thread"]
        done = subprocess.run(
            [*words, "--output-format=json", *(f"--{name}={value}" for name, value in given.items())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=child_environment(),
            pass_fds=[self.fileno()],
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        if done.returncode:
            message = " ".join((done.stderr or done.stdout).split())[:MESSAGE]
            raise JobFailed(f"fio: exit status {done.returncode}: {message}")
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
        return found

    @property
    def _sequential(self) -> dict[str, int]:
        return {"bs": BLOCK, "iodepth": IN_FLIGHT if self._direct else 1}

    def _bypasses_cache(self) -> bool:
        """Return whether the file can be written with O_DIRECT, which some file systems refuse only on the write."""
        try:
            descriptor = os.open(f"/proc/self/fd/{self.fileno()}", os.O_RDWR | os.O_DIRECT)
        except OSError:
            return False
        try:
            with mmap.mmap(-1, PAGE) as page:
                return os.pwrite(descriptor, page, 0) == PAGE
        except OSError:
            return False
        finally:
            os.close(descriptor)


def seconds_of(result: dict[str, Any], mode: str) -> float:
    """Return the seconds of a job, without the start of fio; fio rounds them up to milliseconds."""
    return float(result[mode]["runtime"]) * 1e-3


def require_space(folder: Path, needed: int) -> None:
    """Raise Skip if a file of `needed` bytes would take more than a tenth of the free space."""
    free = shutil.disk_usage(folder).free
    if needed > FREE_SHARE * free:
        raise Skip(
            f"needs {format_bytes(needed)} of storage; a tenth of the free {format_bytes(free)} "
            f"is {format_bytes(FREE_SHARE * free)}"
        )


def file_system_of(folder: Path) -> str:
    """Return the type of the file system that contains the folder, such as `ext4`; `unknown` if it is not listed."""
    mounts = [each for each in psutil.disk_partitions(all=True) if folder.is_relative_to(each.mountpoint)]
    return sorted(mounts, key=lambda mount: len(mount.mountpoint))[-1].fstype if mounts else "unknown"
