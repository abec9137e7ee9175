"""Two sides measured in turns on one machine: their speeds are compared by pairs of neighbours in time."""
