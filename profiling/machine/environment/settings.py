"""Environment variables that affect results, each with the pattern of its valid values.

Another value may be a path, a name or a secret: it is recorded as `…`, which only shows that the variable is set.
Sources: the OpenMP specification 5.2, ch. 21; the manuals of GCC's libgomp and Intel's OpenMP runtime (KMP_…), of
OpenBLAS, MKL, oneDNN, Numba, TensorFlow, JAX, PyTorch, Keras, CUDA and NCCL, and of glibc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MASK = "…"

NUMBER, NUMBERS, REAL = r"\d+", r"\d+(,\d+)*", r"\d*\.?\d+"
YES_NO = r"(?i:true|false|yes|no|on|off|[01])"
ISA = r"(?i:default|all|sse4?[._]?[12]?|avx[\w]*|amx\w*|neon|sve\w*|vsx|zvector)"
_BIND = r"(?i:true|false|master|primary|close|spread)"
_PLACE = r"!?\{[\d,:-]+\}(:\d+(:-?\d+)?)?"
_PLACES = rf"(?i:threads|cores|ll_caches|sockets|numa_domains)(\(\d+\))?|{_PLACE}(,{_PLACE})*"
_KMP_WORD = (
    r"(?i:(no)?(verbose|warnings|respect|reset|duplicates)|granularity=(fine|thread|core|tile|die|node|group|socket)"
    r"|compact|scatter|balanced|disabled|explicit|none|physical|logical|norespect|proclist=\[[\d,{}:-]+\]|\d+)"
)
_FLAG_VALUE = r"[\w.+-]+(,[\w.+-]+)*"
FLAGS = rf"--?\w+(=(?:{_FLAG_VALUE}))?"
"""A flag of XLA, whose values are words and numbers; a variable may contain several flags."""
_ALLOCATOR = r"\w+:(\[[\w.:,]+\]|[\w.]+)"

THREADS: Mapping[str, str] = {
    **dict.fromkeys(("OMP_NUM_THREADS",), NUMBERS),
    **dict.fromkeys(("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"), NUMBER),
    **dict.fromkeys(("VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), NUMBER),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), NUMBER),
    "OMP_PROC_BIND": rf"{_BIND}(,{_BIND})*",
    "OMP_PLACES": _PLACES,
    "OMP_SCHEDULE": r"(?i:(non)?monotonic:)?(?i:static|dynamic|guided|auto)(,\d+)?",
    "OMP_DYNAMIC": YES_NO,
    "OMP_WAIT_POLICY": r"(?i:active|passive)",
    "GOMP_CPU_AFFINITY": r"[\d ,:-]+",
    "KMP_AFFINITY": rf"{_KMP_WORD}(,{_KMP_WORD})*",
    "KMP_BLOCKTIME": r"(?i:\d+(us|ms)?|infinite)",
    "NUMBA_THREADING_LAYER": r"(?i:default|safe|forksafe|threadsafe|tbb|omp|workqueue)",
}
"""Thread settings, each with the pattern of its values."""
SETTINGS: Mapping[str, str] = {
    "KERAS_BACKEND": r"tensorflow|jax|torch|numpy|openvino",
    **dict.fromkeys(("TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_DETERMINISTIC_OPS"), YES_NO),
    **dict.fromkeys(("TF_CUDNN_DETERMINISTIC", "XLA_PYTHON_CLIENT_PREALLOCATE", "JAX_ENABLE_X64"), YES_NO),
    **dict.fromkeys(("NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING", "NUMBA_DISABLE_JIT"), YES_NO),
    **dict.fromkeys(("TF_XLA_FLAGS", "XLA_FLAGS"), FLAGS),
    "TF_GPU_ALLOCATOR": r"cuda_malloc_async",
    "TF_GPU_THREAD_MODE": r"global|gpu_private|gpu_shared",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": REAL,
    "PYTORCH_CUDA_ALLOC_CONF": rf"{_ALLOCATOR}(,{_ALLOCATOR})*",
    **dict.fromkeys(("CUDA_DEVICE_MAX_CONNECTIONS", "MALLOC_ARENA_MAX"), NUMBER),
    **dict.fromkeys(("NCCL_ALGO", "NCCL_PROTO"), r"[\w^:;,]+"),
    **dict.fromkeys(("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"), r"LOC|NVL|PIX|PXB|PHB|SYS|\d"),
    **dict.fromkeys(("NCCL_P2P_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C"), NUMBER),
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": REAL,
    "CUDA_MODULE_LOADING": r"LAZY|EAGER|DEFAULT",
    "CUDA_DEVICE_ORDER": r"FASTEST_FIRST|PCI_BUS_ID",
    "OPENBLAS_CORETYPE": r"(?i:[a-z][a-z0-9]{2,15})",
    **dict.fromkeys(("MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"), ISA),
}
"""Settings of frameworks and libraries, each with the pattern of its values."""


def collect_variables(patterns: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with these names that are set, with masked values."""
    return {name: masked(os.environ[name], pattern) for name, pattern in patterns.items() if os.environ.get(name)}


def masked(value: str, pattern: str) -> str:
    """Return the value if it matches the pattern, else `…`; in a list of flags, each flag is masked separately."""
    if pattern != FLAGS:
        return value if re.fullmatch(pattern, value.strip()) else MASK
    return " ".join(map(_flag, value.split()))


def _flag(word: str) -> str:
    name, is_set, _ = word.partition("=")
    if re.fullmatch(FLAGS, word):
        return word
    return f"{name}={MASK}" if is_set and re.fullmatch(FLAGS, name) else MASK
