"""Facts about the TPUs of this machine, from JAX or else TensorFlow, in a process of its own.

A TPU belongs to one process at a time, and the process of a run imports no framework: `python -m` of this module prints
the facts as JSON and ends before the first measurement.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.machine.environment.container import ACCELERATOR
from accelbench.profiling.records.environment import Environment, TpuDevice

TPUS = TypeAdapter(list[TpuDevice])
LIMIT_S = 180.0
"""Time limit of the process; JAX starts a TPU in about ten seconds."""
TWO_CORES = ("v2", "v3")
"""Generations of which TensorFlow sees each of the two cores of a chip as a device."""


def with_tpus(environment: Environment) -> Environment:
    """Return the environment with the TPUs that a framework sees, or the reason why there are none in `unknown`."""
    try:
        process = subprocess.run(
            child_command(__name__),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            env=child_environment(),
        )
        if process.returncode == 0:
            (*_, answer) = process.stdout.splitlines()
            return environment.model_copy(update={"tpus": TPUS.validate_json(answer)})
        reason = f"JAX or TensorFlow could not use it (exit status {process.returncode})"
    except subprocess.TimeoutExpired:
        reason = f"JAX or TensorFlow did not start within {LIMIT_S:g} s"
    # A framework's own message may contain paths and addresses.
    unknown = f"{reason}: run 'python -m {__name__}' for its message"
    return environment.model_copy(update={"unknown": environment.unknown | {"tpus": unknown}})


def tpus_of_jax(devices: Sequence[Any]) -> list[TpuDevice]:
    """Return the facts about JAX's devices; devices with the same coordinates are parts of one chip."""
    on_chip = Counter(tuple(device.coords) for device in devices)
    return [
        TpuDevice(
            index=index,
            name=device.device_kind,
            memory_bytes=(device.memory_stats() or {}).get("bytes_limit"),
            devices_of_chip=on_chip[tuple(device.coords)],
        )
        for index, device in enumerate(devices)
    ]


def tpus_of_tensorflow(count: int, accelerator: str) -> list[TpuDevice]:
    """Return the facts about `count` devices of TensorFlow, which does not report their kind, by the type `v3-8`."""
    generation = accelerator.lower().removeprefix("tpu").partition("-")[0]
    each = 2 if generation in TWO_CORES else 1
    return [TpuDevice(index=index, name=f"TPU {generation}", devices_of_chip=each) for index in range(count)]


def collect_tpus() -> list[TpuDevice]:
    """Return the facts about the TPUs of this process; raise RuntimeError if they are unknown."""
    if find_spec("jax"):
        import jax

        return tpus_of_jax(jax.local_devices(backend="tpu"))
    accelerator = os.environ.get(ACCELERATOR)
    if not accelerator:
        raise RuntimeError(f"TensorFlow does not report the kind of a TPU: set {ACCELERATOR}, for example to v3-8")
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME") or "local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tpus_of_tensorflow(len(tf.config.list_logical_devices("TPU")), accelerator)


if __name__ == "__main__":
    sys.stdout.write(TPUS.dump_json(collect_tpus()).decode() + "\n")
