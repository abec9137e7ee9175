"""Programs whose host time is known by construction, run as real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BUSY = """
import math
print("ready", flush=True)
while True:
    for number in range(100_000):
        math.sqrt(number)
"""

SLEEPING = """
import time
print("ready", flush=True)
while True:
    time.sleep(0.5)
"""

BUSY_WHILE_MAIN_SLEEPS = """
import threading, time
def spin():
    while True:
        sum(range(1000))
threading.Thread(target=spin, name="spinner", daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(0.5)
"""

MATRIX_PRODUCT = """
import numpy
matrix = numpy.random.default_rng(0).standard_normal((1500, 1500))
print("ready", flush=True)
while True:
    matrix @ matrix
"""

SLOW_GENERATOR = """
import os
os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
import keras, numpy

def examples():
    while True:
        sum(range(1_000_000))
        yield numpy.ones((8, 4), "float32"), numpy.ones((8, 1), "float32")

class Ready(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            print("ready", flush=True)

model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(examples(), steps_per_epoch=1_000_000, verbose=0, callbacks=[Ready()])
"""


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    """The program as a process that has come to what it does for ever; killed at the end."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program ended"
            yield process
        finally:
            process.kill()
