"""Loading of machine code that another compiler than CuPy's has made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from accelbench.profiling.machine.nvidia.cuda import library


def load_machine_code(binary: bytes) -> Any:
    """Return CuPy's module of a cubin on the current device; CuPy loads cubins from files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(binary)
        return library("cupy").RawModule(path=str(path))
