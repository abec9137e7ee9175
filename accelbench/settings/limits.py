"""The most that can be asked for; who asks for more has mistyped, and is told so."""

from __future__ import annotations

MOST_SECONDS = 7 * 24 * 3600.0
"""The longest time that may be allowed to anything, a week."""
MOST_ROUNDS = 99
"""The most rounds of a point: more processes tell nothing that 99 do not."""
MOST_SEED = 2**32 - 1
"""The largest seed that all frameworks take."""
MOST_VALUE = 10**15
"""The largest number on an axis: no machine has so many bytes, and a float holds it exactly."""
MOST_MIB = 2.0**20
"""The largest part of a pack in MiB, a TiB."""
