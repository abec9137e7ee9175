"""Session: the steps of a script, written to a file that accelbench reads, and the commands that it sends back.

Files are opened for each write and never held, because a script may close all descriptors or reuse their numbers. No
thread is started, because a script may fork.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from time import perf_counter_ns

from .batches import examples_of, first_array
from .experiment import InputExperiment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from .exchange import ExchangeExperiment
    from .launches import LaunchExperiment
    from .parts import PartTimer

GRADIENT, JITTED, FUNCTION, OPTIMIZER, FIT, MARKS = range(6)
"""Sources of steps in ascending order of precedence: TensorFlow's eager computations of gradients, calls of a function
compiled by JAX or TensorFlow, steps of an optimizer, Keras' `fit`, and the user's marks."""
SOURCES = ("gradients", "jitted calls", "tf.function calls", "optimizer steps", "fit", "marks")
SPECIAL = ("prefetch", "count", "trace", "exchange", "launches")
"""Commands whose steps are observed in another way than timed ones."""
FLUSH_NS = 200_000_000
MAX_STEPS = 2_000_000
OTHERS = 20
"""Number of steps of another optimizer or function, without one of the observed, after which the other is observed."""


class Session:
    """Observation of one process."""

    current: ClassVar[Session | None] = None

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._events_file, self._commands_file = os.path.join(folder, "events"), os.path.join(folder, "commands")
        self.tracer_pid = int(os.path.basename(folder).rpartition("-")[2])
        self.active = True
        self._events: list[Any] = []
        """Events to write: words, or as the fast paths add them, the end of a step and (begin, end, shape of the first
        array) of the wait for a batch. They are formatted when they are written, and not within a step."""
        self._due_ns = 0
        self._done_commands = 0
        self._steps = 0
        self._source = -1
        self._framework: str | None = None
        self.thread = get_ident()
        """Identity of the thread of the steps."""
        self.fast_thread = 0
        """The same while steps are only timed, without an experiment, trace, count or other command; else 0."""
        self._counted = self._others = 0
        self._drain = False
        self._iterator_id = 0
        self._array_keys: tuple[Any, ...] = ()
        """The keys that lead to the first array of a batch of the iterator with that identity."""
        self._inside = False
        self._wait_ns, self._kind = 0, "plain"
        self._experiment: InputExperiment | None = None
        self._reported = False
        self._special = False
        """Whether an experiment, a trace or a count is under way."""
        self._trace: Any = None
        self._parts: PartTimer | None = None
        self._exchange: ExchangeExperiment | None = None
        self.launches: LaunchExperiment | None = None
        """The experiment on the host; None if none is requested or if it is over."""
        self._watches_end = False
        self.count: Any = None
        """The count of the current step's FLOPs; None for other steps."""
        self._detachers: list[Callable[[], None]] = []
        self._synchronizers: list[Callable[[], None]] = []

    def on_detach(self, function: Callable[[], None]) -> None:
        """Register a function that removes a hook."""
        self._detachers.append(function)

    def on_synchronize(self, function: Callable[[], None]) -> None:
        """Register a framework's function that waits for its devices."""
        self._synchronizers.append(function)

    def replace(self, owner: Any, name: str, observed: Callable[..., Any]) -> Callable[[], None]:
        """Replace a function of a module or class by `observed(function, *arguments)`, and return a function that
        restores it; the end of the observation restores it, too."""
        original = getattr(owner, name)

        def replacement(*arguments: Any, **keywords: Any) -> Any:
            if not self.active:
                return original(*arguments, **keywords)
            return observed(original, *arguments, **keywords)

        return self._set(owner, name, replacement)

    def watch_iterator(self, owner: Any) -> None:
        """Add the waits for the batches of an iterator's class to the steps."""
        produce = owner.__next__

        def next_batch(iterator: Any) -> Any:
            return self.next_batch(produce, iterator)

        self._set(owner, "__next__", next_batch)

    def _set(self, owner: Any, name: str, replacement: Any) -> Callable[[], None]:
        original = getattr(owner, name)
        sys.modules["functools"].update_wrapper(replacement, original)
        setattr(owner, name, replacement)

        def restore() -> None:
            if restore in self._detachers:
                self._detachers.remove(restore)
                setattr(owner, name, original)

        self.on_detach(restore)
        return restore

    def pause(self, seconds: float) -> None:
        """Exclude a pause of these seconds from the current step."""
        self.emit("pause", round(1e9 * seconds))

    def synchronize(self) -> None:
        """Wait for the devices of all frameworks."""
        for function in self._synchronizers:
            function()

    def forget(self) -> None:
        """End the observation in a forked child, whose events belong to another process."""
        self.active, self.fast_thread = False, 0
        self._end_count()

    def detach(self) -> None:
        """End the observation and remove all hooks."""
        self.forget()
        for part in (self._parts, self._exchange):
            if part is not None:
                part.remove()
        self._parts = self._exchange = self.launches = None
        while self._detachers:
            function = self._detachers[-1]
            function()
            if function in self._detachers:
                self._detachers.remove(function)

    def _end_count(self) -> None:
        count, self.count = self.count, None
        if count is not None:
            count.end()
            self.emit("flops", count.flops, count.reason)

    def emit(self, *words: object) -> None:
        """Add an event: its words, which are written as Python literals without tabs or line ends."""
        self._events.append(words)

    def guarded(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function of the observation; an error ends the observation and not the script."""
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - see above
            self.emit("error", f"{type(error).__name__}: {error}")
            self.flush()
            self.detach()

    def importing(self, framework: str) -> None:
        """Report that the script begins to import a framework."""
        if self.active:
            if not self._watches_end:
                import atexit  # which every framework imports

                self._watches_end = True
                atexit.register(self._ended, os.getpid())
            self.emit("framework", framework)
            self.flush()

    def _ended(self, pid: int) -> None:
        """Report what was largest if this process ends by an exception that reports exhausted memory."""
        error = getattr(sys, "last_value", None)
        if error is None or pid != os.getpid():
            return
        try:
            from .memory import device_memory, is_out_of_memory, largest_variables

            if is_out_of_memory(error):
                text = f"{type(error).__name__}: {error}".partition("\n")[0]
                self.emit("out of memory", text, largest_variables(error.__traceback__), device_memory(self._framework))
                self.flush()
        except Exception as failure:  # noqa: BLE001 - an error of the observation must not change how the script ends
            self.emit("error", f"{type(failure).__name__}: {failure}")
            self.flush()

    def step(self, source: int, framework: str | None = None, counted: int = 0) -> None:
        """End a step, executed by `framework` (None if unknown) and counted by the optimizer or function with the
        identity `counted`; a second one that is used in turns with it adds no steps."""
        # This branch reads few objects: the training evicts them from the caches, so that each costs several times
        # as much as in a tight loop.
        if counted == self._counted and source == self._source and get_ident() == self.fast_thread:
            now = perf_counter_ns()
            self._events.append(now)
            self._others = 0
            if now >= self._due_ns:
                self.guarded(self._write)
        else:
            self.guarded(self._step, source, framework, counted)

    def _step(self, source: int, framework: str | None, counted: int) -> None:
        if not self.active or source < self._source:
            return
        if self._counted != counted:
            self._others += 1
            if self._counted and self._others <= OTHERS and source == self._source:
                return
            self._counted = counted
        self._others = 0
        if self._drain:
            self._drain, self._kind = False, "drained"
            self.synchronize()
        elif self._experiment is not None and self._experiment.synchronizes():
            self.synchronize()
        now = perf_counter_ns()
        if source != self._source:
            self._source, self._framework, self.thread = source, framework, get_ident()
            main = getattr(sys.modules.get("__main__"), "__file__", None)
            self.emit("source", SOURCES[source], main, *sys.path)
        elif get_ident() != self.thread:
            return
        self.emit("step", now, self._kind)
        if self._kind == "drained":
            self.emit("drained")
        self._steps += 1
        if self._parts is not None and self._parts.step_ended(self._steps, self._wait_ns / 1e9):
            self._parts = None
            self.emit("parted")
        self._wait_ns, self._kind = 0, "plain"
        if self._parts is not None:
            self._kind = "parts"
        # Within the experiment on the input, as little as possible is executed, because it is part of the steps.
        special = self._special and not (self._experiment is not None and self._experiment.plain)
        if special:
            self._after_special_step()
        if now >= self._due_ns:
            self._write()
        if special and self._special:
            self.emit("pause", perf_counter_ns() - now)
        self._set_fast_thread()

    def _set_fast_thread(self) -> None:
        observed = self._special or self._drain or self._parts is not None or self._experiment is not None
        self.fast_thread = self.thread if self.active and not observed and self._kind == "plain" else 0

    def _write(self) -> None:
        """Write the events; after `MAX_STEPS`, end the observation."""
        self.flush()
        if self._steps > MAX_STEPS:
            self.emit("error", f"more than {MAX_STEPS:,} steps before the answer")
            self.flush()
            self.detach()

    @property
    def waits_for_device(self) -> bool:
        """Return whether `synchronize` may be called before the next step ends."""
        return self._drain or self._special

    def next_batch(self, produce: Callable[[Any], Any], iterator: Any) -> Any:
        """Return `produce(iterator)`, and add the wait for it to the current step."""
        if self._inside or id(iterator) != self._iterator_id or get_ident() != self.fast_thread:
            return self._next_batch(produce, iterator)
        self._inside = True
        begin = perf_counter_ns()
        try:
            batch = produce(iterator)
            end = perf_counter_ns()
        except StopIteration:
            self._epoch_ended(begin)
            raise
        finally:
            self._inside = False
        try:
            array = batch
            for key in self._array_keys:
                array = array[key]
            self._events.append((begin, end, array.shape))
            if end >= self._due_ns:
                self._merge_waits()
        except Exception:  # noqa: BLE001 - a batch of another structure
            self.guarded(self._add_batch, iterator, batch, begin, end)
        return batch

    def _next_batch(self, produce: Callable[[Any], Any], iterator: Any) -> Any:
        if not self.active or self._inside or get_ident() != self.thread:
            return produce(iterator)
        experiment = self._experiment
        self._inside = True
        begin = end = perf_counter_ns()
        try:
            if experiment is None:
                batch = produce(iterator)
                end = perf_counter_ns()
                self._wait_ns += end - begin
            else:
                batch = self._experimental(experiment, produce, iterator)
        except StopIteration:
            self._epoch_ended(perf_counter_ns() if experiment else begin)
            raise
        finally:
            self._inside = False
        if experiment is None or not experiment.delivering:  # batches from memory are not counted: see `_step`
            self.guarded(self._add_batch, iterator, batch, begin, end)
        return batch

    def _epoch_ended(self, begin: int) -> None:
        """Add the wait for the end of the batches, and begin an epoch."""
        self._events.append((begin, perf_counter_ns(), ()))
        self.emit("epoch")

    def _add_batch(self, iterator: Any, batch: Any, begin: int, end: int) -> None:
        """Add the wait for a batch of a new iterator or with a new structure."""
        if id(iterator) != self._iterator_id:
            self._iterator_id = id(iterator)
            self.emit("epoch")
            self.emit("loader", type(iterator).__name__, getattr(iterator, "_num_workers", None))
        self._array_keys, examples = first_array(batch)
        self._events.append((begin, end, (examples,)))
        if end >= self._due_ns:
            self._merge_waits()

    def _merge_waits(self) -> None:
        """Merge the last waits into one: a loop without steps, such as a validation, writes no events."""
        wait_ns = examples = 0
        while self._events and self._events[-1].__class__ is tuple and self._events[-1][0].__class__ is int:
            begin, end, shape = self._events.pop()
            wait_ns, examples = wait_ns + end - begin, examples + examples_of(shape)
        self._events.append((0, wait_ns, (examples,)))

    def _experimental(self, experiment: InputExperiment, produce: Callable[[Any], Any], iterator: Any) -> Any:
        # Devices go on in a pause, so that a short one would shorten the steps.
        begin, paused = perf_counter_ns(), not experiment.plain
        try:
            batch = experiment.next_batch(produce, iterator)
        finally:
            if paused:
                self.emit("pause", perf_counter_ns() - begin)
        self._kind = experiment.kind
        return batch

    def _after_special_step(self) -> None:
        self._end_count()
        if self._trace is not None and self._trace.step_ended():
            self.emit("traced", self._trace.device, self._trace.reason)
            self._trace, self._kind = None, "after trace"
        elif self._trace is not None:
            self._kind = "traced"
        if self._exchange is not None:
            self._after_unexchanged_step(self._exchange)
        if self.launches is not None:
            self._kind = "launched"
            if self.launches.step_ended():
                self.emit("launches", self.launches.seconds, self.launches.refused)
                self.launches, self._kind = None, "plain"
        experiment = self._experiment
        if experiment is not None and experiment.step_ended():
            if not self._reported:
                self._reported = True
                self.emit("experiment", experiment.prefetched, experiment.same_random_numbers, experiment.refused)
            if experiment.used_up:
                self._experiment = None
        self._special = any((self._experiment, self._exchange, self.launches, self._trace))

    def _after_unexchanged_step(self, experiment: ExchangeExperiment) -> None:
        self._kind = "unexchanged"
        if experiment.step_ended():
            self.emit("exchange", experiment.refused)
            self._exchange, self._kind = None, "plain"

    def flush(self) -> None:
        """Write the events and execute the commands received since; without the folder, end the observation."""
        self._due_ns = perf_counter_ns() + FLUSH_NS
        new, self._events = self._events, []
        text = "".join(map(_line, new))
        self._steps += sum(event.__class__ is int for event in new)
        try:
            events = os.open(self._events_file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.write(events, text.encode("ascii"))
            finally:
                os.close(events)
            commands = os.open(self._commands_file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                lines = os.read(commands, 1 << 16).decode().splitlines()
            finally:
                os.close(commands)
        except OSError:
            self.detach()
            return
        for line in lines[self._done_commands :]:
            self._done_commands += 1
            self._execute(*line.split("\t"))

    def _execute(self, command: str, *arguments: str) -> None:
        self._special = self._special or command in SPECIAL
        if command == "detach":
            self.detach()
        elif command == "drain":
            self._drain = True
        elif command == "prefetch":
            self._reported = False
            self._experiment = self._experiment or InputExperiment(self.synchronize)
            self._experiment.begin(int(arguments[0]), int(arguments[1]))
        elif command == "count":
            from .flops import FlopCount

            self.count, self._kind = FlopCount(self._framework), "counted"
        elif command == "parts":
            from .parts import PartTimer
            from .tracers import imported_framework

            self._parts = PartTimer(self, int(arguments[0]), self._framework or imported_framework())
            self._wait_ns, self._kind = 0, "parts"
        elif command == "exchange":
            from .exchange import ExchangeExperiment

            self._exchange, self._kind = ExchangeExperiment(self, int(arguments[0])), "unexchanged"
        elif command == "launches":
            from .launches import LaunchExperiment

            self.launches, self._kind = LaunchExperiment(), "launched"
        elif command == "memory":
            from .memory import device_memory

            self.emit("memory", device_memory(self._framework))
        elif command == "trace":
            from .tracers import StepTrace

            self._trace = StepTrace(self._framework, int(arguments[0]), arguments[1])
            self._kind = "traced"
        self._set_fast_thread()


def _line(event: Any) -> str:
    """Return the line of an event."""
    if event.__class__ is int:
        return f"'step'\t{event}\n"
    if event[0].__class__ is int:
        begin, end, shape = event
        return f"'wait'\t{end - begin}\t{examples_of(shape)}\n"
    return "\t".join(map(ascii, event)) + "\n"
