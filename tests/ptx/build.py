"""The interpreter's shared library, compiled once for each state of its sources into the user's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

SOURCES = Path(__file__).parent / "interpreter"
COMPILE = ("g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC")
# Floating-point operations round as written in the source, in the rounding mode that it sets.
EXACT = ("-ffp-contract=off", "-frounding-math")
KEPT_SECONDS = 7 * 24 * 3600


@cache
def build_library() -> Path:
    """Return the path of the library; RuntimeError with the compiler's messages if it does not compile."""
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in {".cpp", ".h"})
    digest = hashlib.sha256("\0".join((*COMPILE, *EXACT)).encode())
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    folder = user_cache_path("accelbench-tests") / "ptx"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"interpreter-{digest.hexdigest()[:16]}.so"
    with FileLock(folder / "lock"):
        if not library.exists():
            for outdated in folder.glob("interpreter-*.so"):
                if time.time() - outdated.stat().st_mtime > KEPT_SECONDS:  # another checkout may use it
                    outdated.unlink()
            with tempfile.TemporaryDirectory() as objects:
                sources = [file for file in files if file.suffix == ".cpp"]
                with ThreadPoolExecutor(2) as pool:
                    list(
                        pool.map(
                            lambda source: _run(*EXACT, "-c", str(source), "-o", f"{objects}/{source.stem}.o"), sources
                        )
                    )
                linked = Path(objects, "linked.so")
                _run("-shared", *(f"{objects}/{source.stem}.o" for source in sources), "-o", str(linked))
                unfinished = library.with_suffix(".new")
                unfinished.write_bytes(linked.read_bytes())
                os.replace(unfinished, library)
    return library


def _run(*arguments: str) -> None:
    outcome = subprocess.run([*COMPILE, *arguments], capture_output=True, text=True)
    if outcome.returncode != 0:
        raise RuntimeError(f"g++: {outcome.stderr}")
