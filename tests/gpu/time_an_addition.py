"""Script that times an addition on the device with NVBench and prints the Timing; run by `test_timer_on_device.py`.

NVBench times once per process, so each test needs a separate process. The argument selects the behaviour: `works`,
`fails` (the work raises an error), or `twice` (a second timing).
"""

from __future__ import annotations

import sys

import cupy

from accelbench.profiling.devices.cupy_device import cupy_stream
from accelbench.profiling.machine.nvidia.nvbench import time_nvbench

behaviour = sys.argv[1]
x = cupy.random.standard_normal(1 << 24).astype(cupy.float32)
y = cupy.empty_like(x)


def run(stream: int) -> None:
    if behaviour == "fails":
        raise ArithmeticError("the work itself failed")
    with cupy_stream(stream):
        cupy.add(x, x, out=y)


timing = time_nvbench(run, 5.0)
if behaviour == "twice":
    time_nvbench(run, 5.0)
print(timing.model_dump_json())
