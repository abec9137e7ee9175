"""Records of a user's script, measured by `accelbench diagnose`."""

from __future__ import annotations

from typing import Literal

from accelbench.profiling.records.stored import Count, Finite, Positive, Seconds, Several, Share, Stored

SCRIPT = "script:"
"""The beginning of the benchmark's name in the record of a script."""

WORKERS = "worker processes"
"""The name of the worker processes in `ThreadLines`."""


class CodeLine(Stored):
    """A line of the user's own code, with the time that it and the libraries called by it take."""

    file: str
    """The file, relative to the working folder; only its name if it is elsewhere."""
    line: Count
    """The number of the line, from 1; 0 if unknown."""
    function: str
    """The function that contains the line."""
    share: Share
    """The share of the samples, 0 to 1."""


class ThreadLines(Stored):
    """Lines of the user's own code in another thread than the main one, or in worker processes."""

    name: str
    """The name of the thread, or `worker processes` for all of them."""
    lines: list[CodeLine]
    """The lines, as shares of the time of the thread, or of the main threads of these processes."""


class LargeVariable(Stored):
    """A variable of a script that ended out of memory, with all arrays that it contains."""

    name: str
    """The name of the variable, and of its function if it is local."""
    bytes: Count
    """The size of its arrays in bytes; an array that is in several variables belongs to the first of them."""
    arrays: Count
    """The number of its arrays."""


class ScriptMemory(Stored):
    """Memory of a script until the answer, or until it ended out of memory."""

    host_peak: Count | None = None
    """The largest resident memory of the script's process in bytes, without its child processes; null if unknown."""
    device_peak: Count | None = None
    """The largest memory in use on the script's first device in bytes; null if the framework does not report it."""
    device_reserved: Count | None = None
    """The largest memory that the framework's allocator reserved on that device in bytes; null if not reported."""
    device_limit: Count | None = None
    """The memory of that device in bytes, as the framework reports it."""
    fragmentation: Share | None = None
    """1 − `device_peak` ÷ `device_reserved`: the share of the reserved memory that no array occupied at the peak."""
    exhausted: str | None = None
    """The exception by which the script ended out of memory; null if it did not."""
    largest: list[LargeVariable] = []
    """The largest variables of a script that ended out of memory, the largest first."""


class ScriptRank(Stored):
    """One of several ranks of a script, and the parts of its steps that do not wait for the other ranks."""

    rank: Count
    """The number of the rank, from 0."""
    steps: Count
    """The number of steps with timed parts."""
    parts: dict[Literal["input", "forward", "backward", "optimizer"], Seconds] = {}
    """The median seconds of each part per step; a part that is missing is unknown."""


class SlowRank(Stored):
    """A rank that is significantly slower than the others in a part of a step."""

    rank: Count
    """The number of the rank, from 0."""
    part: Literal["input", "forward", "backward", "optimizer"]
    """The part of a step that takes longer in this rank."""
    delay_s: Positive
    """The additional seconds per step, compared with the median of the other ranks."""
    delay_low: Finite
    """The lower end of the 95 % interval of `delay_s`."""
    delay_high: Positive
    """The upper end of the same interval."""
    relative: Positive
    """`delay_s` ÷ the seconds of this part in the other ranks."""


class ScriptProfile(Stored):
    """Steps of a user's script, and the lines of its own code that take the time."""

    steps_by: Literal["gradients", "jitted calls", "tf.function calls", "optimizer steps", "fit", "marks"] | None = None
    """The source of the steps; null if no step was found."""
    examples: float | None = None
    """The mean number of examples per step; null if no batch was observed."""
    waiting: Share | None = None
    """The share of the untouched steps that waits for the next batch; null if no wait can be observed."""
    waiting_interval: tuple[float, float] | None = None
    """The 95 % interval of `waiting`."""
    epoch_start_s: Positive | None = None
    """The mean seconds of the first step of an epoch, which is not a sample; null if none was timed."""
    workers: Count | None = None
    """The number of the loader's worker processes; null if unknown."""
    recompiled: Count = 0
    """The number of times that JAX compiled the training step again, after its first two calls."""
    recompiled_s: Seconds = 0.0
    """The seconds of these compilations."""
    waiting_lines: list[CodeLine] = []
    """The lines in which the main thread makes a batch or waits for it, as shares of that time."""
    host_lines: list[CodeLine] = []
    """The lines in which the main thread spends the rest of its time, as shares of that time."""
    thread_lines: list[ThreadLines] = []
    """The lines of the other threads, and of the worker processes, that run the user's own code."""
    memory: ScriptMemory = ScriptMemory()
    """The memory of the script."""
    world: Several = 1
    """The number of ranks, on all hosts."""
    ranks: list[ScriptRank] = []
    """The ranks on this host, if there are several; the other fields are of the first of them."""
    slow_rank: SlowRank | None = None
    """The slowest rank, and in which part; null if no rank is significantly slower, or if they were not compared."""
    missing: list[str] = []
    """The missing results, each with the reason, as text."""
