"""Experiment on the input: for some steps, batches come from memory, so that no step waits for them.

The batches are those that the script would have got, in the same order, fetched in a pause before. The training is
therefore the same as without the experiment, unless making a batch and training on it draw from the same random
generator; then the experiment is refused.
"""

from __future__ import annotations

from time import perf_counter, process_time, sleep

from .batches import bytes_of
from .generators import GeneratorStates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROBED = 3
"""Number of batches before the experiment for which the use of random generators is observed."""
MAX_PAUSE_S = 30.0
FEWEST, ENOUGH = 5, 50
"""Smallest number of batches for an experiment, and the number below which the next epoch is used if an epoch ends."""
COLD = 0.2
"""Fraction of the prefetched steps excluded as warm-up."""
IDLE, WINDOW_S, MAX_SETTLING_S = 0.1, 0.02, 1.0
"""Use of a CPU below which no thread of the script prepares batches, seconds in which it is measured, and longest wait
for that, or for worker processes, in seconds."""
ATTEMPTS = 3
"""Number of epochs in which the experiment is attempted, if too few batches are left in an epoch."""

MAX_ITERATORS = 10
"""Largest number of epochs, or of changes between loaders, before the experiment begins."""


class InputExperiment:
    """Experiment, from its request to the last batch from memory; it can be repeated."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._ready: list[tuple[Any, GeneratorStates]] = []
        self._end: Exception | None = None
        self._iterator: Any = None
        self._cold = False

    def begin(self, batches: int, max_bytes: int) -> None:
        """Begin the experiment, or repeat it, with this number of batches, or as many as fit into the memory."""
        self._wanted, self._max_bytes = batches, max_bytes
        self._observe(self._iterator)
        self._attempts = self._iterators = 0
        self.prefetched = 0
        self.same_random_numbers = True
        self.refused: str | None = None
        self.over = False
        """Whether the last batch from memory has been returned, or the experiment was refused."""

    def _observe(self, iterator: Any) -> None:
        """Start to observe the use of random generators in an iterator; its first batch may seed a sampler.

        The iterator is kept, since another one could get its `id` and then its batches.
        """
        self._iterator, self._probed = iterator, -1
        self._last: GeneratorStates | None = None
        self._by_model: set[str] = set()
        self._by_input: set[str] = set()

    @property
    def delivering(self) -> bool:
        """Return whether the current batch came from memory."""
        return self.prefetched > 0 and not self.over

    @property
    def kind(self) -> str:
        """Return the kind of the current step, by its last batch."""
        if not self.delivering:
            return "probed"
        return "cold" if self._cold else "prefetched"

    @property
    def plain(self) -> bool:
        """Return whether the next batch only has to be returned: one is left, and there are no generators to set."""
        return bool(self._ready) and self.delivering and not self._by_input

    def synchronizes(self) -> bool:
        """Return whether the devices must finish the current step first: at both ends of the timed steps."""
        if not self.delivering:
            return False
        if self._cold and len(self._ready) <= (1 - COLD) * self.prefetched:
            self._cold = False
            return True
        return not self._ready

    def next_batch(self, produce: Callable[[Any], Any], iterator: Any) -> Any:
        """Return the next batch, from memory if the experiment has begun."""
        if iterator is not self._iterator:  # a new epoch, or another loader
            self._ready, self._end = [], None
            self.over = self.over or self.prefetched > 0
            self._observe(iterator)
            self._iterators += 1
            if self._iterators > MAX_ITERATORS and not self.over:
                self.refused = f"no loader returned more than {PROBED} batches in a row"
                self.over = True
        if self._ready:
            return self._deliver()
        if self._end is not None:
            end, self._end = self._end, None
            raise end
        if self.over:
            return produce(iterator)
        if self._probed >= PROBED:
            return self._begin(produce, iterator)
        return self._probe(produce, iterator)

    def _probe(self, produce: Callable[[Any], Any], iterator: Any) -> Any:
        before = GeneratorStates()
        if self._last is not None:
            self._by_model |= before.changed_since(self._last)
        batch = produce(iterator)
        self._last = GeneratorStates()
        if self._probed >= 0:
            self._by_input |= self._last.changed_since(before)
        self._probed += 1
        return batch

    def _begin(self, produce: Callable[[Any], Any], iterator: Any) -> Any:
        begin, before = perf_counter(), GeneratorStates()
        self._by_model |= before.changed_since(self._last) if self._last else set()
        both = self._by_model & self._by_input
        if both or not before.readable:
            names = " and ".join(sorted(both))
            self.refused = (
                f"input and model draw from the same random generator ({names})"
                if both
                else "the state of a random generator cannot be read"
            )
            self.over = True
            return produce(iterator)
        self._fetch(produce, iterator)
        fetch_s = (perf_counter() - begin) / max(1, len(self._ready))
        self.same_random_numbers = not self._by_input & self._by_model
        before.restore(self._by_input)
        self._last = before
        self._attempts += 1
        found = len(self._ready)
        if found < FEWEST or (self._attempts == 1 and self._end and found < min(ENOUGH, self._wanted)):
            if self._attempts == ATTEMPTS:
                self.refused = f"only {found} batches were left in the epoch, or fit into memory"
                self.over = True
            self._probed = -1
        else:
            self.prefetched = found
            self._cold = True
            self._synchronize()
            self._settle(iterator, fetch_s)
        return self.next_batch(produce, iterator)

    def _fetch(self, produce: Callable[[Any], Any], iterator: Any) -> None:
        begin, size = perf_counter(), 0
        state = GeneratorStates()
        while len(self._ready) < self._wanted and size <= self._max_bytes and perf_counter() - begin < MAX_PAUSE_S:
            try:
                batch = produce(iterator)
            except Exception as error:  # noqa: BLE001 - raised where the script would have met it
                self._end = error
                return
            after = GeneratorStates()
            changed = after.changed_since(state)
            state.update(after)
            after.keep(changed)
            self._by_input |= changed
            self._ready.append((batch, after))
            size += bytes_of(batch)

    def _settle(self, iterator: Any, fetch_s: float) -> None:
        """Wait until processes and threads have filled their queues of batches, each fetched in `fetch_s` seconds."""
        queued = getattr(iterator, "_num_workers", 0) * (getattr(iterator, "_prefetch_factor", None) or 0)  # PyTorch's
        sleep(min(MAX_SETTLING_S, queued * fetch_s))
        busy, end = True, perf_counter() + MAX_SETTLING_S
        while busy and perf_counter() < end:
            before = process_time()
            sleep(WINDOW_S)
            busy = process_time() - before > IDLE * WINDOW_S

    def _deliver(self) -> Any:
        """Return a batch and set only the generators that made it: the step must not begin with cold caches."""
        batch, after = self._ready.pop(0)
        if self._by_input and self._last is not None:
            if GeneratorStates(self._by_input).changed_since(self._last):
                self.same_random_numbers = False
            after.restore(self._by_input)
            self._last.update(after)
        return batch

    def step_ended(self) -> bool:
        """Return whether the experiment ended with this step: its result is known."""
        if self.delivering and not self._ready:
            self.over = True
        return self.over

    @property
    def used_up(self) -> bool:
        """Return whether nothing is left to return to the script."""
        return self.over and not self._ready and self._end is None
