"""Lock what the images are built of: every file of each pinned package by its SHA-256, which pip then insists on.

The versions are those of the pinned sets, which `resolve.py` writes. uv asks the registry for the hashes and names
none in the files.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = ("cpu", "gpu", "tpu")
"""The sets that images are built of."""
UNUSED = ("libclang", "duckdb")
"""What no measurement loads: libclang builds TensorFlow, and by duckdb a command of xprof searches its traces."""
COMPILE = (
    *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--upgrade", "--no-header", "--no-annotate"),
    *("--generate-hashes", "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_36"),
)
"""Python and platform are those of the base image, a Debian 12."""


def lock(name: str, *source: str) -> None:
    """Write `NAME.lock`, which begins with what it was made of."""
    print(f"locking {name}")
    run = subprocess.run([*COMPILE, *source], check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    made_of = " ".join(word for word in source if "/" in word or ":" in word)
    (HERE / f"{name}.lock").write_text(f"# Locked by `make pins` from {made_of}.\n{run.stdout}")


def main() -> None:
    """Write the locks of all images, and that of the tools that install and list the packages."""
    left_out = [word for package in UNUSED for word in ("--no-emit-package", package)]
    for name in IMAGES:
        lock(name, "--no-deps", *left_out, f"requirements/{name}.txt")
    lock("tools", "--group", "pyproject.toml:image-tools")


if __name__ == "__main__":
    main()
