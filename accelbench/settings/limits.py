"""Upper bounds of numeric options; a larger value is rejected as a typing mistake."""

from __future__ import annotations

MOST_SECONDS = 7 * 24 * 3600.0
"""Maximum time limit in seconds (one week)."""
MOST_ROUNDS = 99
"""Maximum number of repetitions of a point."""
MOST_SEED = 2**32 - 1
"""Largest seed that all frameworks accept."""
MOST_VALUE = 10**15
"""Largest value of an axis; a float represents it exactly."""
MOST_MIB = 2.0**20
"""Largest part of a bundle in MiB (one TiB)."""
