"""Locks of files, also on file systems without locks: NFS without a lock daemon, some network file systems."""

from __future__ import annotations

import errno
import warnings
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems without locks; EINVAL is returned by some network and FUSE file systems."""
SOFT = ".soft"
"""Suffix of the file that is created as a lock where the file system has none."""


def acquire(path: Path, *, blocking: bool = False, mode: int = 0o644) -> BaseFileLock:
    """Lock a file and return the lock, which is released by `release`.

    Raises filelock.Timeout if another process holds the lock and `blocking` is false, and OSError for a file that
    cannot be created. Without locks of the file system, the lock is a further file, deleted by `release`.
    """
    lock: BaseFileLock = FileLock(path, mode=mode)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # filelock reports that it uses a further file
            lock.acquire(blocking=blocking)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        lock = SoftFileLock(path.with_name(path.name + SOFT), mode=mode)
        lock.acquire(blocking=blocking)
    return lock
