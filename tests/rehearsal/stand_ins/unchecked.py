"""The method of verifications that the rehearsal's patches let pass."""

UNCHECKED = "not verified: the simulated driver executes no kernel"
