"""Events of an observed script, read while it runs."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelbench.profiling import attach
from accelbench.profiling.files import open_for_appending, open_regular

OBSERVATION = Path(attach.__file__).resolve().parent
"""Folder of the code that is added to the script's process."""
STEP, WAIT = "'step'", "'wait'"
"""Kinds of the most frequent events, the end of a step and the wait for a batch, as literals."""
MAX_READ = 64 << 20
"""Maximum number of bytes read at once."""


@dataclass(frozen=True)
class ScriptStep:
    """One step, from the end of the previous one; the wait and the examples are those of its batches."""

    seconds: float
    wait_s: float
    examples: int
    starts_epoch: bool
    kind: str
    """`plain`, `drained` (it includes the wait for the device), `counted` (under the counter of FLOPs), `traced`,
    `parts` (its parts are timed), `after trace`, `probed`, `cold` and `prefetched` (with a batch from memory; the first
    ones, after a pause, are cold), `unexchanged` (its gradients were exchanged in a pause) or `launched` (around the
    experiment on the host)."""


@dataclass
class ScriptEvents:
    """All events so far."""

    folder: Path
    pid: int | None = None
    """PID of the script's Python process on its host; None until it has started."""
    node: str | None = None
    """Name of that host."""
    source: str | None = None
    roots: list[str] = field(default_factory=list)
    """Folders of the user's own files, and the script itself."""
    steps: list[ScriptStep] = field(default_factory=list)
    """Steps of the current source."""
    drains: int = 0
    """Number of times that the script has waited for the device on request."""
    drained: int = 0
    """Number of steps up to the last of these waits."""
    workers: int | None = None
    loader: str | None = None
    framework: str | None = None
    """The framework that the script has imported last."""
    traced: tuple[str, str | None] | None = None
    """Kind of the traced device, and the reason for a missing trace."""
    experiments: list[tuple[int, bool, str | None]] = field(default_factory=list)
    """Number of prefetched batches, whether the random numbers were the same, and the reason for a refusal, of each."""
    unexchanged: bool = False
    """Whether the experiment on the exchange of gradients is over."""
    exchange_refused: str | None = None
    """Reason for a refusal of that experiment."""
    launches: tuple[list[float], str | None] | None = None
    """Seconds per call of the training function in launches of many calls, and the reason for a refusal."""
    flops: tuple[dict[str, float], str | None] | None = None
    """FLOPs of the counted step by dtype, and the reason for a missing count."""
    memory: dict[str, int] | None = None
    """Peak, peak reservation and limit of the device's memory in bytes, as far as they are known."""
    out_of_memory: tuple[str, list[tuple[str, int, int]]] | None = None
    """Exception by which the script ended, and its largest variables: name, bytes and number of arrays."""
    world: int = 1
    """Number of ranks that the launcher has started, on all hosts."""
    parts: dict[int, tuple[float | None, ...]] = field(default_factory=dict)
    """Seconds of input, forward, backward and optimizer by the number of the step; None for a part without hooks."""
    parted: bool = False
    """Whether all requested steps have their parts."""
    recompiled: tuple[int, float] = 0, 0.0
    """Number and seconds of compilations in later calls of the training step."""
    error: str | None = None
    _offset: int = 0
    _end_ns: int | None = None
    """End of the last step."""
    _wait_ns: int = 0
    _paused_ns: int = 0
    _examples: int = 0
    _starts_epoch: bool = False
    _installed: tuple[str, ...] = ()

    def read(self) -> None:
        """Add the complete new lines; a line that is no event ends the observation with an error."""
        with open_regular(self.folder / "events") as file:
            file.seek(self._offset)
            data = file.read(MAX_READ)
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        for line in data.decode("ascii", errors="replace").splitlines():
            kind, *words = line.split("\t")
            try:
                if kind == STEP:
                    self._add_step(*words)
                elif kind == WAIT:
                    self._add_wait(*words)
                else:
                    self._add(*map(ast.literal_eval, (kind, *words)))
            except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError, MemoryError):
                self.error = self.error or f"the script wrote an invalid event: {line[:80]!r}"

    def send(self, *words: str) -> None:
        """Send a command."""
        descriptor = open_for_appending(self.folder / "commands")
        try:
            os.write(descriptor, ("\t".join(words) + "\n").encode())
        finally:
            os.close(descriptor)

    @property
    def is_local(self) -> bool:
        """Return whether the script's process runs on this host."""
        return self.pid is not None and self.node == os.uname().nodename

    def is_own(self, file: str) -> Path | None:
        """Return the path of a file of the user's own code, as py-spy shortens it; None for other files."""
        for root in self.roots:
            if (path := Path(root, file)).is_file():
                return None if path.resolve().is_relative_to(OBSERVATION) else path
        return None

    def _add(self, kind: str, *words: Any) -> None:
        if kind == "hello":
            self.pid, self.node, folder, *prefixes = words[:5]
            self._installed = (*prefixes, str(Path(os.__file__).parent))
            self.roots = [folder]
        elif kind == "source":
            self.source, script, *path = words
            self.steps.clear()
            self._end_ns = None
            folders = [os.path.dirname(script)] if script else []
            found = [*self.roots, *folders, *(entry for entry in path if entry and not self._is_library(entry))]
            self.roots = list(dict.fromkeys(map(os.path.abspath, found)))
        elif kind == "epoch":
            self._starts_epoch = True
        elif kind == "pause":
            self._paused_ns += int(words[0])
        elif kind == "drained":
            self.drains, self.drained = self.drains + 1, len(self.steps)
        elif kind == "loader":
            self.loader, self.workers = words
        elif kind == "framework":
            self.framework = str(words[0])
        elif kind == "traced":
            self.traced = words[0], words[1]
        elif kind == "experiment":
            self.experiments.append((words[0], words[1], words[2]))
        elif kind == "exchange":
            self.unexchanged, self.exchange_refused = True, words[0]
        elif kind == "launches":
            self.launches = [float(seconds) for seconds in words[0]], words[1]
        elif kind == "flops":
            self.flops = {str(dtype): float(flops) for dtype, flops in words[0].items()}, words[1]
        elif kind == "part":
            self.parts[int(words[0])] = tuple(None if seconds is None else float(seconds) for seconds in words[1:])
        elif kind == "compiled":
            count, seconds = self.recompiled
            self.recompiled = count + int(words[0]), seconds + float(words[1])
        elif kind == "parted":
            self.parted = True
        elif kind == "world":
            self.world = int(words[0])
        elif kind == "memory":
            self.memory = {str(name): int(size) for name, size in words[0].items()}
        elif kind == "out of memory":
            self.out_of_memory = str(words[0]), [(str(name), int(size), int(count)) for name, size, count in words[1]]
            self.memory = {str(name): int(size) for name, size in words[2].items()} or self.memory
        elif kind == "error":
            self.error = str(words[0])

    def _add_wait(self, wait_ns: str, examples: str) -> None:
        """Add a wait from its literals; without `ast`, which takes ten times as long, as steps may take 10 µs."""
        self._wait_ns += int(wait_ns)
        self._examples += int(examples)

    def _add_step(self, end_ns: str, kind: str = "plain") -> None:
        """Add a step from its literals, with the waits, pauses and examples since the previous one."""
        end, begin, paused, wait_s = int(end_ns), self._end_ns, self._paused_ns, self._wait_ns / 1e9
        if begin is not None:
            seconds = max(1, end - begin - paused) / 1e9
            wait = min(wait_s, seconds)
            self.steps.append(ScriptStep(seconds, wait, self._examples, self._starts_epoch, kind.strip("'")))
        self._end_ns, self._wait_ns, self._paused_ns, self._examples, self._starts_epoch = end, 0, 0, 0, False

    def _is_library(self, folder: str) -> bool:
        return "site-packages" in folder or "dist-packages" in folder or folder.startswith(self._installed)
