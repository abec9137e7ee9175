"""States of the global random generators that the script has imported: Python's generator, NumPy's legacy generator,
PyTorch's generator of the CPU, and TensorFlow's generator of seeds for eager operations.

A generator's state is compared by a key of plain Python values.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

GENERATORS = "random", "numpy", "torch", "tensorflow"
"""Names of the generators, by the module that owns each."""


class GeneratorStates:
    """States of global generators at one time."""

    def __init__(self, names: Collection[str] = GENERATORS) -> None:
        """Read the states of the named generators, except for missing ones."""
        self._raw: dict[str, Any] = {}
        self._keys: dict[str, Any] = {}
        self.readable = True
        try:
            self._read(names)
        except Exception:  # noqa: BLE001 - libraries raise various exceptions; none may end the script
            self.readable = False

    def _read(self, names: Collection[str]) -> None:
        if "random" in names and (python := sys.modules.get("random")) is not None:
            self._raw["random"] = self._keys["random"] = python.getstate()
        if "numpy" in names and (numpy := sys.modules.get("numpy.random")) is not None:
            state = numpy.get_state()
            self._raw["numpy"] = state
            self._keys["numpy"] = (state[0], state[1].tobytes(), *state[2:])
        if "torch" in names and (torch := sys.modules.get("torch")) is not None:
            state = torch.get_rng_state()
            self._raw["torch"] = state
            self._keys["torch"] = bytes(state.tolist())
        if "tensorflow" in names and (seeds := _tensorflow_seeds()) is not None:
            self._raw["tensorflow"] = self._keys["tensorflow"] = seeds.getstate()

    def changed_since(self, earlier: GeneratorStates) -> set[str]:
        """Return the names of the generators that have produced numbers since then."""
        return {name for name in self._keys if self._keys[name] != earlier._keys.get(name)}

    def keep(self, names: Collection[str]) -> None:
        """Delete the states of all other generators."""
        for name in self._raw.keys() - names:
            del self._raw[name], self._keys[name]

    def update(self, other: GeneratorStates) -> None:
        """Replace states by the ones of the same generators in `other`."""
        self._raw |= other._raw
        self._keys |= other._keys

    def restore(self, names: set[str]) -> None:
        """Set the named generators to these states."""
        for name in names & self._raw.keys():
            if name == "random":
                sys.modules["random"].setstate(self._raw[name])
            elif name == "numpy":
                sys.modules["numpy.random"].set_state(self._raw[name])
            elif name == "tensorflow":
                _tensorflow_seeds().setstate(self._raw[name])
            else:
                sys.modules["torch"].set_rng_state(self._raw[name])


def _tensorflow_seeds() -> Any:
    """Return the generator of the seeds of eager operations; None before `tf.random.set_seed`."""
    module = sys.modules.get("tensorflow.python.eager.context")
    return getattr(module.context(), "_rng", None) if module is not None else None
