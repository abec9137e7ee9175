"""An NVIDIA driver of our own: the two libraries by their real names and symbols, compiled from C.

What they answer is set by variables of the process that loads them, so that one build serves every case.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CUDA = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int setting(const char *name, int otherwise) { const char *v = getenv(name); return v ? atoi(v) : otherwise; }
int cuInit(unsigned flags) { return setting("STUB_CUINIT", 0); }
int cuDriverGetVersion(int *v) { *v = setting("STUB_VERSION", 12080); return 0; }
int cuDeviceGetCount(int *n) { *n = setting("STUB_COUNT", 1); return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Stub GPU %d", d); return 0; }
int cuDeviceGetUuid(unsigned char *u, int d) { memset(u, 0x11 * (d + 1), 16); return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:4%d:00.0", d); return 0; }
int cuDeviceTotalMem_v2(size_t *m, int d) { *m = 85899345920; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 16 ? 132 : a == 38 ? 50 << 20 : a == 75 ? 9 : 0; return 0; }
int cuGetErrorName(int code, const char **s) {
  *s = code == 100 ? "CUDA_ERROR_NO_DEVICE" : code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : 0;
  return *s ? 0 : 1;
}
"""

# NVML_ERROR_NOT_SUPPORTED is 3, NVML_ERROR_INSUFFICIENT_SIZE 7. The energy counter rises by 25 J per reading.
NVML = r"""
#include <stdlib.h>
#include <string.h>
static int card;
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "580.95.05", n); return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **h) {
  *h = &card; return strcmp(id, "0000:40:00.0") ? 6 : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *v) { *v = 700000; return 0; }
int nvmlDeviceGetEccMode(void *h, int *now, int *later) { *now = 1; *later = 0; return 0; }
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { return 3; }
int nvmlDeviceGetPersistenceMode(void *h, int *v) { *v = 0; return 0; }
int nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *v) { *v = type == 1 ? 1980 : 2619; return 0; }
int nvmlDeviceGetClockInfo(void *h, int type, unsigned *v) { *v = type == 1 ? 1755 : 2619; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *v) { *v = 650500; return 0; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *v) { *v = 61; return 0; }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *v) { v[0] = 97; v[1] = 40; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *p) { *n = 2; return p ? 0 : 7; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *v) { *v = 0x5; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *v) {
  static unsigned long long total = 1000000; *v = total += 25000; return 0;
}
"""


FOLDER = tempfile.TemporaryDirectory(prefix="stub-driver-")  # removed when the tests end


@functools.cache
def stub_driver() -> Path:
    """The folder with `libcuda.so.1` and `libnvidia-ml.so.1`."""
    folder = Path(FOLDER.name)
    for name, source in {"libcuda.so.1": CUDA, "libnvidia-ml.so.1": NVML}.items():
        compile_library(folder / name, source)
    return folder


def compile_library(path: Path, source: str) -> None:
    """Write a shared library of that C source; skips the test without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("a library of our own needs a C compiler")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)


def run_with_driver(script: str, **settings: str) -> str:
    """The standard output of a fresh interpreter that runs the script with the stub driver in place."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "SLURM_"))}
    environment = {**inherited, "LD_LIBRARY_PATH": str(stub_driver()), **settings}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
